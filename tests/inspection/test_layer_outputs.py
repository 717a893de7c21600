"""Attention and vectors of every layer, compared with transformers, and heads that are off."""

import numpy as np
import pytest
import torch
import transformers
from test_head_outputs import FAMILIES, save_family, tiny_row

from bertsmith.inspection.head_outputs import pack_copies
from bertsmith.inspection.layer_outputs import compute_layers
from bertsmith.model.loading import load_model


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
