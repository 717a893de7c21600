"""After a reset every token of the last layer reads all tokens alike, and nothing else changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import save_tiny_of

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.head_pruning import prune_heads
from bertsmith.model.loading import load_model
from bertsmith.model.query_reset import has_own_queries, reset_queries
from bertsmith.model.saving import save_model


def attentions(model: BertModel, inputs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """The attention weights of each layer, [batch, heads, length, length]."""
    with torch.no_grad():
        found = model(**inputs, output_attentions=True).attentions
    assert found is not None
    return found


@pytest.mark.parametrize("pruned", [{}, {1: [0]}])
def test_only_the_last_layer_reads_evenly(
    small_model: Callable[..., BertModel],
    padded_inputs: dict[str, Any],
    pruned: dict[int, list[int]],
) -> None:
    model = small_model("classify", num_labels=2)
    if pruned:
        model = prune_heads(model, pruned)
    before, weights = attentions(model, padded_inputs), dict(model.named_parameters())
    kept = {name: weight.detach().clone() for name, weight in weights.items()}
    reset_queries(model)
    after = attentions(model, padded_inputs)
    torch.testing.assert_close(after[0], before[0])
    mask = padded_inputs["attention_mask"]
    even = (mask / mask.sum(-1, keepdim=True))[:, None, None, :] * mask[:, None, :, None]
    torch.testing.assert_close(after[-1], even.expand_as(after[-1]).float())
    assert not torch.allclose(before[-1], after[-1])
    changed = {name for name in kept if not torch.equal(kept[name], weights[name])}
    assert changed == {"layers.1.attention.qkv.weight", "layers.1.attention.qkv.bias"}
    width = model.layers[-1].attention.output.in_features
    for name in changed:
        assert torch.equal(kept[name][width:], weights[name][width:]), name


def test_transformers_reads_it_as_we_do(
    small_model: Callable[..., BertModel], padded_inputs: dict[str, Any], tmp_path: Path
) -> None:
    model = small_model("classify", num_labels=3)
    reset_queries(model)
    save_model(model, tmp_path)
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert not theirs.bert.encoder.layer[-1].attention.self.query.weight.any()
    ids = padded_inputs["input_ids"]  # all of them: padded on the left, theirs reads the padding
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, theirs(ids).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shared", "own"), [("all", False), ("attention", False), ("none", True)])
def test_attention_that_layers_share_is_not_lost(tmp_path: Path, shared: str, own: bool) -> None:
    model = load_model(
        save_tiny_of(
            tmp_path / shared,
            "albert",
            shared=shared,
            num_hidden_groups=1 if shared == "all" else 2,
        )
    )
    assert has_own_queries(model) is own
    if own:
        reset_queries(model)
        return
    before = model.layers[-1].attention.qkv.weight.detach().clone()
    with pytest.raises(ConfigError, match="that of other layers too"):
        reset_queries(model)
    assert torch.equal(model.layers[-1].attention.qkv.weight, before)
