"""Attention and vectors of every layer, compared with transformers, and heads that are off."""

import numpy as np
import pytest
import torch
import transformers
from tiny_models import save_tiny_of, tiny_tokenizer

from bertsmith.inspection.head_outputs import apply_head, compute_layers, pack_copies
from bertsmith.inspection.lens import iter_lens
from bertsmith.model.loading import load_model

FAMILIES = ("albert", "bert", "distilbert", "electra", "modernbert", "roberta")
CHANGES = {"modernbert": {"local_attention": 6, "num_attention_heads": 2}}


def tiny_row(text="the good film was very awful and the dull story", pair="a lovely film ."):
    encoding = tiny_tokenizer().encode(text, pair)
    return np.array(encoding.ids, np.int32), np.array(encoding.type_ids, np.int32)


def save_family(folder, family, *heads, **changes):
    return save_tiny_of(folder, family, heads, **CHANGES.get(family, {}), **changes)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_equals_the_eager_one_of_transformers(family, tmp_path):
    head = "replaced_token" if family == "electra" else "masked_lm"
    folder = save_family(tmp_path / "model", family, head)
    theirs = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids, type_ids = tiny_row()
    model = load_model(folder)
    layers = compute_layers(model, pack_copies(model, ids, type_ids))
    inputs = {"input_ids": torch.from_numpy(ids.astype(np.int64))[None]}
    if model.config.type_vocab_size > 1:
        inputs["token_type_ids"] = torch.from_numpy(type_ids.astype(np.int64))[None]
    with torch.no_grad():
        output = theirs(**inputs, output_attentions=True, output_hidden_states=True)
    assert len(layers.attentions) == len(output.attentions) == model.config.num_hidden_layers
    for ours, expected in zip(layers.attentions, output.attentions, strict=True):
        torch.testing.assert_close(ours, expected[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(ours.sum(-1), torch.ones(ours.shape[:2]), rtol=0, atol=1e-6)
    torch.testing.assert_close(layers.vectors, output.last_hidden_state[0], rtol=0, atol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_lens_of_the_last_layer_is_the_prediction(family, tmp_path):
    head = "replaced_token" if family == "electra" else "masked_lm"
    model = load_model(save_family(tmp_path / "model", family, head))
    ids, type_ids = tiny_row()
    batch = pack_copies(model, ids, type_ids)
    layers = compute_layers(model, batch)
    lens = list(iter_lens(model, head, layers, batch, range(len(ids))))
    assert len(lens) == model.config.num_hidden_layers + 1
    with torch.no_grad():
        inputs = [torch.from_numpy(each.astype(np.int64))[None] for each in (ids, type_ids)]
        logits = model(inputs[0], token_type_ids=inputs[1]).logits[0]
    torch.testing.assert_close(lens[-1].view_as(logits), logits, rtol=0, atol=2e-5)
    assert not torch.allclose(lens[0], lens[-1], atol=0.1)


@pytest.mark.parametrize("family", ("albert", "bert", "modernbert"))
def test_a_head_that_is_off_adds_nothing(family, tmp_path):
    """Its part of the output projection is zero: the same as a model without these weights."""
    folder = save_family(tmp_path / "model", family, "masked_lm")
    model, cut = load_model(folder), load_model(folder)
    ids, type_ids = tiny_row()
    batch = pack_copies(model, ids, type_ids)
    whole = compute_layers(model, batch)
    without = compute_layers(model, batch, without={(1, 0)})
    # Layers of ALBERT share their weights, so the head can be cut from both of them only.
    if family == "albert":
        without = compute_layers(model, batch, without={(0, 0), (1, 0)})
    size = model.config.hidden_size // model.config.num_attention_heads
    cut.layers[1].attention.output.weight.data[:, :size] = 0
    expected = compute_layers(cut, batch)
    torch.testing.assert_close(without.vectors, expected.vectors, rtol=0, atol=1e-5)
    assert not torch.allclose(without.vectors, whole.vectors, atol=1e-3)
    torch.testing.assert_close(without.attentions[0], whole.attentions[0])


def test_logits_of_positions_are_those_of_the_whole_row(tmp_path):
    model = load_model(save_family(tmp_path / "model", "bert", "masked_lm"))
    ids, type_ids = tiny_row()
    batch = pack_copies(model, ids, type_ids, copies=3)
    with torch.no_grad():
        hidden = model.encode(batch)
        logits = apply_head(model, "masked_lm", hidden, batch, (2, 5))
        whole = model.heads["masked_lm"](hidden, model.embeddings.word.weight)
    assert logits.shape == (3, 2, model.config.vocab_size)
    for copy in range(3):
        rows = [copy * len(ids) + position for position in (2, 5)]
        torch.testing.assert_close(logits[copy], whole[rows], rtol=0, atol=1e-5)
