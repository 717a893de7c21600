"""A layer with causal or local attention is a class of its own; the batch stays as it is.

ModernBERT's equality with transformers holds the numbers of a window.
"""

import pytest
import torch

from bertsmith.model import dense_attention
from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.config import BertConfig
from bertsmith.model.layers import TransformerLayer
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.shape_buckets import fill_up

LENGTHS = (37, 31, 31, 7, 1)


class CausalLayer(TransformerLayer):
    """A decoder's layer: BERT's, whose tokens see none behind them."""

    pattern = AttentionPattern(causal=True)


class LocalLayer(TransformerLayer):
    pattern = AttentionPattern(window=5)


class CausalLocalLayer(TransformerLayer):
    pattern = AttentionPattern(causal=True, window=5)


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize(
    ("layer", "first", "last"),
    [(CausalLayer, 20, 36), (LocalLayer, 15, 28), (CausalLocalLayer, 20, 28),
     (TransformerLayer, 0, 36)],
)  # fmt: skip
def test_a_token_is_seen_as_far_as_the_pattern_says(
    layer: type[TransformerLayer], first: int, last: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: path == "fused")
    torch.manual_seed(0)
    config = BertConfig(100, 48, 2, 3, 64, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)  # fmt: skip
    layout, module = RowLayout(LENGTHS, torch.device("cpu")), layer(config)
    hidden = fill_up(torch.randn(sum(LENGTHS), 48))
    changed = hidden.clone()
    changed[20:24] += 1.0  # of the first sequence
    is_changed = (module(hidden, layout) != module(changed, layout)).any(1)
    assert is_changed.nonzero()[:, 0].tolist() == list(range(first, last + 1))
    assert layout.view(FULL) is layout.view()  # made once for all layers
