"""A layer with causal or local attention is a class of its own; the batch stays as it is."""

import pytest
import torch
from torch import Tensor, nn

from bertsmith.model.attention import SelfAttention
from bertsmith.model.blocks import FULL, AttentionPattern, BlockLayout
from bertsmith.model.config import BertConfig
from bertsmith.model.layers import TransformerLayer
from bertsmith.model.shape_buckets import fill_up

LENGTHS = (37, 31, 31, 7, 1)
HIDDEN, HEADS = 48, 3
CPU = torch.device("cpu")
PATTERNS = [
    AttentionPattern(causal=True),
    AttentionPattern(window=0),
    AttentionPattern(window=5),
    AttentionPattern(causal=True, window=5),
    FULL,
]


def rotate(heads: Tensor) -> Tensor:
    """Turn pairs of numbers by angles that grow with the place in the row (Su et al. 2021)."""
    angles = torch.arange(len(heads))[:, None, None] * torch.logspace(0, -2, heads.shape[-1] // 2)
    one, two = heads.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


def dense(
    module: SelfAttention, hidden: Tensor, pattern: AttentionPattern, *, is_rotated: bool
) -> Tensor:
    """Compute attention sequence by sequence, from the definition."""
    parts = module.qkv(hidden).view(len(hidden), 3, HEADS, -1).unbind(1)
    if is_rotated:
        parts = (rotate(parts[0]), rotate(parts[1]), parts[2])
    contexts = []
    for query, key, value in zip(*(part.split(LENGTHS) for part in parts), strict=True):
        scores = torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5
        for i in range(len(query)):
            for j in range(len(query)):
                is_behind = pattern.causal and j > i
                if is_behind or (pattern.window is not None and abs(i - j) > pattern.window):
                    scores[:, i, j] = -torch.inf
        contexts.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), value).flatten(1))
    return module.output(torch.cat(contexts))


@pytest.fixture
def module() -> SelfAttention:
    torch.manual_seed(0)
    module = SelfAttention(HIDDEN, HEADS, 0.0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.double()


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_dense_attention_under_a_mask(
    module: SelfAttention,
    pattern: AttentionPattern,
    path: str,
    is_rotated: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SelfAttention, "is_fused_faster", lambda *_: path == "fused")
    hidden = torch.randn(sum(LENGTHS), HIDDEN, dtype=torch.float64, requires_grad=True)
    view = BlockLayout(LENGTHS, CPU).view(pattern)
    rotary = rotate if is_rotated else None
    found = module(hidden, view, rotary=rotary)[: len(hidden)]
    expected = dense(module, hidden, pattern, is_rotated=is_rotated)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((out * weights).sum(), hidden)[0] for out in (found, expected)]
    torch.testing.assert_close(*gradients)
    firsts = view.bounds.starts[:-1]
    alone = module(hidden, view, first_only=True, rotary=rotary)[: len(LENGTHS)]
    torch.testing.assert_close(alone, expected[firsts])


class CausalLayer(TransformerLayer):
    """A decoder's layer: BERT's, whose tokens see none behind them."""

    pattern = AttentionPattern(causal=True)


def test_a_causal_layer_learns_nothing_of_what_follows() -> None:
    torch.manual_seed(0)
    config = BertConfig(100, HIDDEN, 2, HEADS, 64, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)  # fmt: skip
    layout = BlockLayout(LENGTHS, CPU)
    causal, full = CausalLayer(config), TransformerLayer(config)
    hidden = fill_up(torch.randn(sum(LENGTHS), HIDDEN))
    changed = hidden.clone()
    changed[20:37] += 1.0  # the end of the first sequence
    for layer, is_seen in ((causal, False), (full, True)):
        before, after = layer(hidden, layout), layer(changed, layout)
        assert torch.equal(before[:20], after[:20]) != is_seen
        assert torch.equal(before[37:], after[37:])
        assert not torch.equal(before[20:37], after[20:37])
    assert layout.view(FULL) is layout.view()  # made once for all layers
