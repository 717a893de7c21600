"""After a reset every token of the last layer reads all tokens alike, and nothing else changed."""

import pytest
import torch
from tiny_models import save_tiny_of

from bertsmith.errors import ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.reinitialize import has_own_queries, reset_queries
from bertsmith.model.shrinking import prune_heads


def attentions(model, inputs):
    """The attention weights of each layer, [batch, heads, length, length]."""
    with torch.no_grad():
        return model(**inputs, output_attentions=True).attentions


@pytest.mark.parametrize("pruned", [{}, {1: [0]}])
def test_only_the_last_layer_reads_evenly(small_model, padded_inputs, pruned):
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


@pytest.mark.parametrize(("shared", "own"), [("all", False), ("attention", False), ("none", True)])
def test_attention_that_layers_share_is_not_lost(tmp_path, shared, own):
    groups = 1 if shared == "all" else 2
    model = load_model(save_tiny_of(tmp_path, "albert", shared=shared, num_hidden_groups=groups))
    assert has_own_queries(model) is own
    if own:
        reset_queries(model)
        return
    before = model.layers[-1].attention.qkv.weight.detach().clone()
    with pytest.raises(ConfigError, match="that of other layers too"):
        reset_queries(model)
    assert torch.equal(model.layers[-1].attention.qkv.weight, before)
