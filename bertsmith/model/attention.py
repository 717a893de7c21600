"""Multi-head attention over packed rows: [tokens, hidden] in and out.

A packed row has the tokens of several sequences, one after another. `SelfAttention` and
`CrossAttention` have the projections. An `AttentionView` decides which keys each query sees, and
computes the contexts: the averages of values, weighted by attention. On a CPU, arrays of a packed
row may end in padding rows, which round up their length (`fill_up` in model/shape_buckets.py).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor, nn

from bertsmith.model.rotary import Rotary

RecordWeights = Callable[[Sequence[Tensor]], list[Tensor]]
"""Receives a layer's attention weights and returns the weights that the layer then uses. There is a
tensor [sequences, heads, queries, keys] for each block, that is, for sequences of similar lengths
that are computed together."""


class AttentionView(Protocol):
    """Which keys each query sees, and how attention to them is computed."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute softmax(QK^T / sqrt(d)) V (Vaswani et al. 2017, section 3.2.1).

        Args:
            query, key, value: [tokens, heads, head_size] of one dtype, fp32 or bf16; they may be
                parts of one array, and end in padding rows.
            dropout_prob: probability of dropping an attention weight.
            record_weights: receives the attention weights of all blocks and returns those to use.

        Returns:
            Contexts [tokens with a query, heads * head_size], which may end in padding rows.
        """


class SelfAttention(nn.Module):
    """Self-attention within each sequence (Vaswani et al. 2017, section 3.2).

    All vectors have the dtype of the layer's weights, fp32 or bf16.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout_prob: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_prob = dropout_prob
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(
        self,
        hidden: Tensor,
        view: AttentionView,
        record_weights: RecordWeights | None = None,
        *,
        rotary: Rotary | None = None,
    ) -> Tensor:
        """Return vectors [tokens, hidden] of the tokens that have a query in the view.

        `hidden`, [tokens, hidden], and the result may end in padding rows. `record_weights` is that
        of `AttentionView.attend`; `rotary` rotates queries and keys by their positions.
        """
        qkv = self.qkv(hidden)
        query, key, value = qkv.view(len(qkv), 3, self.num_heads, -1).unbind(1)
        if rotary is not None:
            query, key = rotary(query), rotary(key)
        dropout_prob = self.dropout_prob if self.training else 0.0
        return self.output(view.attend(query, key, value, dropout_prob, record_weights))


class CrossAttention(nn.Module):
    """Attention to the tokens of another sequence (Vaswani et al. 2017, section 3.2.3).

    All vectors have the dtype of the layer's weights, fp32 or bf16.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout_prob: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_prob = dropout_prob
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key_value = nn.Linear(hidden_size, 2 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def project(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of `source`, [source tokens, hidden], for `forward`.

        Each is [source tokens, heads, head_size].
        """
        keys_and_values = self.key_value(source).view(len(source), 2, self.num_heads, -1)
        return keys_and_values[:, 0], keys_and_values[:, 1]

    def forward(
        self,
        hidden: Tensor,
        keys_and_values: tuple[Tensor, Tensor],
        view: AttentionView,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Return a vector for each token of `hidden`, [tokens, hidden].

        `keys_and_values` come from `project`. When text is generated, they come from a
        `SourceCache` (model/cached_view.py) and `view` is a `SourceView`. The view pairs the
        sequences of `hidden` with those of the source. `hidden` and the source may end in padding
        rows.
        """
        query = self.query(hidden).view(len(hidden), self.num_heads, -1)
        key, value = keys_and_values
        dropout_prob = self.dropout_prob if self.training else 0.0
        return self.output(view.attend(query, key, value, dropout_prob, record_weights))
