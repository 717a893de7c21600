"""Logits of heads at chosen positions, and after each layer."""

import numpy as np
import pytest
import torch
from tiny_models import save_tiny_of, tiny_tokenizer

from bertsmith.inspection.head_outputs import apply_head, pack_copies
from bertsmith.inspection.layer_outputs import compute_layers
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
