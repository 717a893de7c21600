"""Multi-head self-attention over a packed row: [tokens, hidden] in and out.

The projections take the packed row as it is; only the scores depend on where sequences end. On CUDA
one kernel takes the whole row with the bounds of its sequences, if a trial found the kernel correct
and faster. Otherwise the row is cut into blocks of neighbouring sequences of similar length
(model/blocks.py).
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.model.attention_paths import attention_path
from bertsmith.model.blocks import FULL, AttentionView, Block, join_heads, split_heads
from bertsmith.model.dropout import attention_dropout
from bertsmith.model.rotary import Rotary
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.varlen import fits, varlen_attention, varlen_pays

RecordWeights = Callable[[Sequence[Tensor]], list[Tensor]]
"""Receives a layer's attention weights, [sequences, heads, length, length] for each block, and
returns the weights that the layer then uses."""


def softmax(scores: Tensor) -> Tensor:
    """Compute the softmax over the last dimension in fp32, as torch does inside for bf16, too.

    But torch's bf16 softmax is slow on rows shorter than 32, and on rows below 256 whose length is
    no multiple of 16. Through an fp32 copy, forward and backward take a quarter of the time at
    length 16, a fifth to three quarters at lengths from 29 to 125, but twice the time at 512.
    """
    length = scores.shape[-1]
    if scores.dtype == torch.bfloat16 and (length < 32 or (length < 256 and length % 16)):
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    return scores.softmax(-1)


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
        first_only: bool = False,
        rotary: Rotary | None = None,
    ) -> Tensor:
        """Return new vectors [tokens, hidden], or [sequences, hidden] of first tokens only.

        First tokens alone are not computed together with `record_weights`.

        `hidden`, [tokens, hidden], and the result may end in padding rows; see `fill_up`.
        `record_weights` receives the attention weights of all blocks and returns those to use;
        `rotary` rotates queries and keys.
        """
        assert record_weights is None or not first_only
        qkv = self.qkv(hidden)
        if rotary is not None:
            query, key, value = qkv.view(len(qkv), 3, self.num_heads, -1).unbind(1)
            qkv = torch.stack([rotary(query), rotary(key), value], 1).flatten(1)
        is_whole = record_weights is None and view.pattern == FULL
        has_dropout = self.training and self.dropout_prob > 0
        if is_whole and fits(qkv, self.num_heads) and varlen_pays(qkv.device, has_dropout):
            return self.output(self.attend_row(qkv, view, first_only=first_only))
        blocks = view.blocks
        sizes = [block.num_tokens for block in blocks]
        rows = qkv.split([*sizes, len(qkv) - sum(sizes)])  # the rest is padding
        if record_weights is not None:
            return self.output(fill_up(*self.attend_seen(rows, blocks, record_weights)))
        parts = zip(rows, blocks, strict=False)
        context = [self.attend(part, block, first_only=first_only) for part, block in parts]
        return self.output(fill_up(*context))

    def attend_seen(
        self, rows: Sequence[Tensor], blocks: Sequence[Block], record: RecordWeights
    ) -> list[Tensor]:
        """Compute context vectors [tokens, hidden] of every block.

        `rows` are queries, keys and values [tokens, 3 * hidden] of each block. Attention weights
        pass through `record`, as [sequences, heads, length, length] for each block.
        """
        parts = zip(rows, blocks, strict=False)
        heads = [(split_heads(part, block, self.num_heads), block) for part, block in parts]
        weights = [self.weigh(query, key, block.bias) for (query, key, _), block in heads]
        used = record(
            [each[: block.num_sequences] for each, block in zip(weights, blocks, strict=True)]
        )
        # A block may have more rows than sequences; the other rows keep the computed weights.
        return [
            join_heads(
                self.mix(torch.cat([of_texts, computed[len(of_texts) :]]), value, block), block
            )
            for of_texts, computed, ((_, _, value), block) in zip(used, weights, heads, strict=True)
        ]

    def attend_row(self, qkv: Tensor, view: AttentionView, *, first_only: bool) -> Tensor:
        """Compute context vectors [tokens, hidden] of the whole row, or [sequences, hidden].

        `qkv` is [tokens, 3 * hidden], in bf16 or fp16 on a GPU.
        """
        query, key, value = qkv.view(len(qkv), 3, self.num_heads, -1).unbind(1)
        query_bounds = key_bounds = view.bounds
        if first_only:
            query = query.index_select(0, key_bounds.starts[:-1])
            query_bounds = view.first_bounds
        dropout_prob = self.dropout_prob if self.training else 0.0
        return varlen_attention(query, key, value, query_bounds, key_bounds, dropout_prob).flatten(
            1
        )

    def attend(self, qkv: Tensor, block: Block, *, first_only: bool) -> Tensor:
        """Compute context vectors [tokens, hidden] of one block, or [sequences, hidden].

        `qkv` is [tokens, 3 * hidden].
        """
        query, key, value = split_heads(qkv, block, self.num_heads)
        if not first_only:
            return join_heads(self.look(query, key, value, block, block.bias), block)
        query = query[:, :, : block.first_queries]
        context = self.look(query, key, value, block, block.first_bias)
        return context[: block.num_sequences, :, 0].flatten(1)

    def look(
        self, query: Tensor, key: Tensor, value: Tensor, block: Block, bias: Tensor | None
    ) -> Tensor:
        """Compute softmax(QK^T / sqrt(d) + bias) V, [rows, heads, queries, head_size].

        Shapes: `query` [rows, heads, queries, head_size], `key` and `value` [rows, heads, length,
        head_size]; `bias` as `Block.bias`, None for zero.
        """
        if self.is_fused_faster(query, block):
            return self.fused(query, key, value, bias)
        # Plain products are, forward and backward, 3.0 to 6.9 times as fast as torch's kernel in
        # bf16 on a Zen 5, and as fast within 8 % in fp32 through MKL.
        return self.mix(self.weigh(query, key, bias), value, block)

    def is_fused_faster(self, query: Tensor, block: Block) -> bool:
        """Return whether to use torch's fused kernel, which has no dropout on a CPU.

        `query` is [rows, heads, queries, head_size].
        """
        if query.device.type != "cpu":
            return True
        if self.training and self.dropout_prob:
            return False
        is_learning = torch.is_grad_enabled() and query.requires_grad
        return attention_path(query.dtype, is_learning, block.length) == "fused"

    def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
        """Compute attention weights [rows, heads, queries, length], before dropout.

        Shapes are those of `look`. The softmax is computed in fp32, the weights have the dtype of
        `query`.
        """
        shape = query.shape
        query, key = (part.flatten(0, 1) for part in (query, key))
        if bias is None:
            bias = query.new_zeros(1, 1, 1)
        else:
            bias = bias.to(query.dtype).repeat_interleave(self.num_heads, 0)
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=shape[-1] ** -0.5)
        return softmax(scores).view(*shape[:3], -1)

    def mix(self, weights: Tensor, value: Tensor, block: Block) -> Tensor:
        """Average the values by attention weights, with dropout on them in training.

        Shapes: `weights` [rows, heads, queries, length], `value` [rows, heads, length, head_size];
        the result is [rows, heads, queries, head_size].
        """
        dropped = attention_dropout(
            weights, self.dropout_prob, self.training, block.first, block.lengths
        )
        mixed = torch.bmm(dropped.flatten(0, 1), value.flatten(0, 1))
        return mixed.view(*weights.shape[:3], value.shape[-1])

    def fused(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        """Compute attention by torch's own kernel, which never holds the scores.

        Shapes are those of `look`.
        """
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if bias is None else bias[:, None].to(query.dtype),
            dropout_p=self.dropout_prob if self.training else 0.0,
        )
