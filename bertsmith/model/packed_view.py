"""Attention within the sequences of a packed row, or from one packed row to another.

A packed row has the tokens of several sequences one after another, without padding. On CUDA one
kernel takes the whole row with the bounds of its sequences, if a trial found the kernel correct and
faster. Otherwise the row is cut into blocks, each of neighbouring sequences of similar length, and
attention is computed block by block on padded arrays.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bertsmith.model import dense_attention
from bertsmith.model.attention import RecordWeights
from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.block_cuts import MAX_SCORES, cut_blocks, cut_both, cut_by_length
from bertsmith.model.blocks import Block, BlockBias
from bertsmith.model.cells import gather_blocks, put_back
from bertsmith.model.packed_row import PackedRow
from bertsmith.model.shape_buckets import filled_up
from bertsmith.model.varlen import fits, varlen_attention, varlen_pays


@dataclass(frozen=True, eq=False)
class PackedView:
    """An attention view: each sequence of queries sees its sequence of keys, with one pattern.

    In self-attention `queries` and `keys` are the same row, or `queries` has only the tokens of
    `keys` at the positions `picked`, int64 [sequences]. In cross-attention they are two rows.
    `pattern` may hide keys, such as those after a query. With `by_length`, each block holds
    sequences of one padded length (`cut_by_length`), so that a sequence's outputs have the same
    bytes in any batch.
    """

    queries: PackedRow
    keys: PackedRow
    pattern: AttentionPattern = FULL
    picked: Tensor | None = None
    by_length: bool = False
    bias: BlockBias | None = None
    """Numbers that are added to scores, such as T5's by distance."""

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks of neighbouring sequences, of which attention computes one at a time."""
        # On a CPU the scores of a block are held in memory; a GPU's kernel needs no array of them.
        max_scores = MAX_SCORES if self.keys.device.type == "cpu" else math.inf
        cut = cut_by_length if self.by_length else cut_blocks
        query_ranges = cut(self.queries.lengths, max_scores)
        ranges = cut_both(query_ranges, cut(self.keys.lengths, max_scores))
        return [self._block(first, end) for first, end in ranges]

    def _block(self, first: int, end: int) -> Block:
        queries = self.queries.cells(first, end)
        keys = self.keys.cells(first, end)
        # In a block of short sequences a window hides nothing: then no mask is needed for it.
        pattern = self.pattern.within(max(keys.lengths)) if keys.columns is None else self.pattern
        return Block(queries, keys, pattern, first)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute contexts as `AttentionView.attend` does, of all queries or of the picked ones.

        `query` has all tokens, even if only some are picked. Weights are recorded only if none are
        picked.
        """
        assert record_weights is None or self.picked is None
        if self.picked is not None:
            query = query.index_select(0, self.picked)
        if record_weights is None and self._takes_whole_row(query, dropout_prob):
            bounds = self.queries.bounds, self.keys.bounds
            return varlen_attention(query, key, value, *bounds, dropout_prob).flatten(1)
        blocks = self.blocks
        cells = [(block.queries, block.keys, block.keys) for block in blocks]
        heads = gather_blocks((query, key, value), cells)
        if record_weights is None:
            # Without gradients each block is put back before the next is gathered, so that only
            # one is in memory.
            pairs = zip(heads, blocks, strict=True)
            contexts: Iterator[Tensor] = (
                self._attend_block(block, each, dropout_prob) for each, block in pairs
            )
        else:
            biases = [
                dense_attention.add_bias(block.bias, self._model_bias(block)) for block in blocks
            ]
            contexts = _attend_recorded(list(heads), blocks, biases, dropout_prob, record_weights)
        num_rows = filled_up(sum(self.queries.lengths), query.device)
        return put_back(contexts, [block.queries for block in blocks], num_rows)

    def _attend_block(self, block: Block, heads: tuple[Tensor, ...], dropout_prob: float) -> Tensor:
        """Compute the contexts of a block, [rows, heads, length, head_size]."""
        query, key, value = heads
        bias = self._model_bias(block)
        return dense_attention.attend(query, key, value, block, dropout_prob, bias)

    def _model_bias(self, block: Block) -> Tensor | None:
        return None if self.bias is None else self.bias(block)

    def _takes_whole_row(self, query: Tensor, dropout_prob: float) -> bool:
        """Return whether the CUDA kernel computes this attention, and faster than blocks."""
        is_possible = self.pattern == FULL and self.bias is None and fits(query)
        return is_possible and varlen_pays(query.device, dropout_prob > 0)


def _attend_recorded(
    heads: Sequence[tuple[Tensor, ...]],
    blocks: Sequence[Block],
    biases: Sequence[Tensor | None],
    dropout_prob: float,
    record_weights: RecordWeights,
) -> Iterator[Tensor]:
    """Yield the context of each block, from weights that `record_weights` receives and returns.

    `heads` are the queries, keys and values of each block, [rows, heads, length, head_size] as the
    contexts are.
    """
    computed = [
        dense_attention.compute_weights(query, key, bias)
        for (query, key, _), bias in zip(heads, biases, strict=True)
    ]
    # A block may have more rows than sequences: only those of sequences are recorded.
    recorded = [
        weights[: block.queries.num_sequences]
        for weights, block in zip(computed, blocks, strict=True)
    ]
    to_use = record_weights(recorded)
    for block, all_weights, used, block_heads in zip(blocks, computed, to_use, heads, strict=True):
        value = block_heads[2]
        weights = torch.cat([used, all_weights[len(used) :]])
        yield dense_attention.average_values(weights, value, block, dropout_prob)
