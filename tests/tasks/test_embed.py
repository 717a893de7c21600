"""A text's vector is the mean over its tokens, whatever else is encoded with it."""

import numpy as np
import torch
from tiny_models import reviews, save_tiny, tiny_tokenizer

from bertsmith.tasks import inference
from bertsmith.tasks.embed import TextEncoder


def test_vectors_are_means_over_tokens_in_the_order_of_the_texts(tmp_path, monkeypatch):
    from transformers import BertModel

    folder = save_tiny(tmp_path)
    texts = [example.text for example in reviews(13)]
    theirs = BertModel.from_pretrained(folder)
    with torch.inference_mode():
        expected = [
            theirs(torch.tensor([tiny_tokenizer().encode(text).ids])).last_hidden_state[0].mean(0)
            for text in texts
        ]
    encoder = TextEncoder.load(folder, device="cpu", precision="fp32")
    np.testing.assert_allclose(encoder(texts), torch.stack(expected).numpy(), atol=1e-5)
    np.testing.assert_allclose(encoder(texts[3]), expected[3].numpy(), atol=1e-5)
    monkeypatch.setattr(inference, "PREDICTION_TOKENS", 19)
    np.testing.assert_allclose(encoder(texts), torch.stack(expected).numpy(), atol=1e-5)
