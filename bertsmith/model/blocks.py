"""The layout of a packed row for attention: dense blocks or bounds.

A block holds neighbouring sequences of similar length as arrays [rows, heads, length, head_size],
padded within the limits of `cut_blocks` or `cut_by_length`. One index table gathers the block's
heads from the packed row and another puts them back, so that every number, and every gradient, is
moved once each way.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.model.rotary import Rotation
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.model.varlen import Bounds

MAX_PADDING = 1 / 8
"""The largest share of a block's cells that may be padding."""

FREE_PADDING = 64
"""Cells of padding that a block may always have: they cost less than one more block."""

FIRST_QUERIES = 16
"""Cells at the start of each sequence whose queries are computed where the first alone is read and
its bytes must not depend on the batch: for a single query the fused kernel rounds differently in
each thread. A block on a CPU has at least as many cells."""

MAX_SCORES = 2**19
"""Scores per head that a block may hold on a CPU: 2 MB in fp32, two sequences of 512 tokens."""


@dataclass(frozen=True)
class AttentionPattern:
    """Keys that a query sees in its sequence: by default all.

    `causal` hides the keys after the query, `window` those more than that many columns away;
    padding between tokens counts as columns, as in transformers.
    """

    causal: bool = False
    window: int | None = None

    def allows(self, columns: np.ndarray) -> np.ndarray:
        """Return a mask of the pairs that may be seen, bool [..., queries, keys].

        `columns` are the tokens' columns in the padded batch, integers [..., length].
        """
        distance = columns[..., :, None] - columns[..., None, :]
        allowed = distance >= 0 if self.causal else np.full(distance.shape, True)
        return allowed if self.window is None else allowed & (abs(distance) <= self.window)

    def within(self, span: int) -> "AttentionPattern":
        """Return the pattern without a window that no sequence of `span` columns reaches."""
        is_reached = self.window is not None and self.window < span - 1
        return self if is_reached else replace(self, window=None)


FULL = AttentionPattern()


@dataclass(frozen=True)
class HeadPlaces:
    """Index tables between heads of a packed row and of a block.

    Both sides are lists of vectors of head_size numbers. Queries, keys and values are [tokens * 3 *
    heads] in the row and [3 * rows * heads * length] in the block; contexts are [tokens * heads] in
    the row and [rows * heads * length] in the block. Tables are int64, computed on first use:
    without gradients half of them are never needed.

    Args:
        is_real: cells of the block that hold a token, bool [rows, length].
    """

    is_real: np.ndarray
    num_heads: int
    device: torch.device

    @cached_property
    def parts_in_row(self) -> Tensor:
        """The place in the row of each query, key and value of the block."""
        part = np.arange(3)[:, None, None, None]
        return self._send((3 * self._token + part) * self.num_heads + self._head)

    @cached_property
    def parts_in_block(self) -> Tensor:
        """The place in the block of each query, then key, then value of the row."""
        part = np.arange(3)[:, None]
        size = self.is_real.size * self.num_heads
        return self._send(self._in_block[self.is_real][:, None] + part * size)

    @cached_property
    def context_in_row(self) -> Tensor:
        """The place in the row of each context vector of the block."""
        return self._send(self._token * self.num_heads + self._head)

    @cached_property
    def context_in_block(self) -> Tensor:
        """The place in the block of each context vector of the row."""
        return self._send(self._in_block[self.is_real])

    @cached_property
    def context_of_none(self) -> Tensor:
        """The places in the block of context vectors without a token."""
        return self._send(self._in_block[~self.is_real])

    @property
    def _head(self) -> np.ndarray:
        return np.arange(self.num_heads)[:, None]

    @property
    def _token(self) -> np.ndarray:
        """The token of each cell, or of the last cell before that has one, [rows, 1, length]."""
        token = self.is_real.cumsum(dtype=np.int64) - 1
        return token.reshape(len(self.is_real), 1, -1)

    @property
    def _in_block(self) -> np.ndarray:
        """The place in the block of each head of each cell, [rows, length, heads]."""
        rows, length = self.is_real.shape
        places = np.arange(rows * self.num_heads * length).reshape(rows, self.num_heads, length)
        return places.transpose(0, 2, 1)

    def _send(self, places: np.ndarray) -> Tensor:
        return send(torch.from_numpy(places.reshape(-1)), self.device)


@dataclass(frozen=True)
class Block:
    """Neighbouring sequences as dense arrays [rows, heads, length, head_size].

    On a CPU there may be more rows than sequences, and cells beyond the longest of them. Cells
    without a token repeat the token before them: in the row of a sequence its own last one, so that
    nothing passes between sequences, not even NaN. `columns`, int64 [tokens], are those of the
    batch; `first` is the number of its first sequence in the packed row. Where only first tokens
    are read, the queries of the first `first_queries` cells are computed.
    """

    lengths: tuple[int, ...]
    num_rows: int
    length: int
    device: torch.device
    pattern: AttentionPattern = FULL
    columns: np.ndarray | None = field(default=None, repr=False, compare=False)
    first: int = 0
    first_queries: int = 1
    _places: dict[int, HeadPlaces] = field(default_factory=dict, repr=False, compare=False)

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @cached_property
    def num_tokens(self) -> int:
        return sum(self.lengths)

    @cached_property
    def is_real(self) -> np.ndarray:
        """A mask of the cells that hold a token, bool [rows, length]."""
        lengths = np.zeros(self.num_rows, dtype=np.int64)
        lengths[: len(self.lengths)] = self.lengths
        return np.arange(self.length) < lengths[:, None]

    @cached_property
    def bias(self) -> Tensor | None:
        """The mask added to scores, fp32 [rows, 1 or queries, keys]: -inf at keys that are hidden.

        None if every key is seen.
        """
        if self.pattern != FULL:
            # A query without a token sees all keys: the softmax of a row of -inf would be NaN, and
            # so would gradients.
            is_seen = self.is_real[:, None] & self.pattern.allows(self._columns_of_cells)
            return self._send_bias(is_seen | ~self.is_real[:, :, None])
        if self.num_tokens == self.num_rows * self.length:
            return None
        is_seen = self.is_real.copy()
        is_seen[self.num_sequences :] = True  # a row that sees nothing would be NaN
        return self._send_bias(is_seen[:, None])

    @cached_property
    def first_bias(self) -> Tensor | None:
        """The part of `bias` for the first queries, fp32 [rows, 1 or queries, keys], or None."""
        return None if self.bias is None else self.bias[:, : self.first_queries]

    @property
    def _columns_of_cells(self) -> np.ndarray:
        """The column of each cell, [length] or [rows, length]; any number where it has no token."""
        if self.columns is None:
            return np.arange(self.length)
        columns = np.zeros(self.is_real.shape, dtype=np.int64)
        columns[self.is_real] = self.columns
        return columns

    def _send_bias(self, is_seen: np.ndarray) -> Tensor:
        bias = np.where(is_seen, np.float32(0), np.float32(-np.inf))
        return send(torch.from_numpy(bias), self.device)

    def places(self, num_heads: int) -> HeadPlaces:
        """Return the index tables for `num_heads`, shared by all layers."""
        if num_heads not in self._places:
            self._places[num_heads] = HeadPlaces(self.is_real, num_heads, self.device)
        return self._places[num_heads]


@lru_cache(maxsize=256)
def cut_blocks(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks, as ranges `(first, end)`; `lengths` never rises.

    A block takes the next sequence as long as its padding stays within `MAX_PADDING` of its cells
    or within `FREE_PADDING` cells, and its scores within `max_scores`.

    >>> cut_blocks((128, 128, 120, 40, 7))
    [(0, 3), (3, 5)]
    """
    blocks = []
    first = tokens = 0
    for i, length in enumerate(lengths):
        longest = lengths[first]
        cells = (i + 1 - first) * longest
        allowed = max(MAX_PADDING * cells, FREE_PADDING)
        if i > first and (cells - tokens - length > allowed or cells * longest > max_scores):
            blocks.append((first, i))
            first = i
            tokens = 0
        tokens += length
    return [*blocks, (first, len(lengths))]


@lru_cache(maxsize=256)
def cut_by_length(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks of one padded length, as ranges `(first, end)`.

    `lengths` never rises. No sequence is padded to a longer neighbour, so the padded length of each
    depends on its own length alone: with another one, sums over keys may be rounded differently. A
    block's scores stay within `max_scores`, unless it holds a single sequence.

    >>> cut_by_length((128, 128, 120, 40, 7))
    [(0, 3), (3, 4), (4, 5)]
    """
    blocks = []
    first = 0
    for i, length in enumerate(lengths):
        longest = lengths[first]
        is_full = i > first and (i + 1 - first) * longest**2 > max_scores
        if is_full or padded_length(length) < padded_length(longest):
            blocks.append((first, i))
            first = i
    return [*blocks, (first, len(lengths))]


def padded_length(length: int) -> int:
    """Return the length of a block on a CPU whose longest sequence has `length` tokens."""
    return rounded_up(length, steps=8)


@dataclass(frozen=True)
class AttentionView:
    """The sequences of a packed row as attention with one pattern reads them.

    `lengths` never rises. `columns`, int64 [tokens], are those of the batch. Blocks and bounds, for
    the two ways of computing attention, are made on first use. With `by_length` each block holds
    sequences of one padded length (`cut_by_length`).
    """

    lengths: tuple[int, ...]
    device: torch.device
    pattern: AttentionPattern
    columns: np.ndarray | None = field(default=None, repr=False, compare=False)
    by_length: bool = False

    @cached_property
    def blocks(self) -> list[Block]:
        max_scores = MAX_SCORES if self.device.type == "cpu" else math.inf
        cut = cut_by_length if self.by_length else cut_blocks
        ranges = cut(self.lengths, max_scores)
        return [self._block(first, end) for first, end in ranges]

    def _block(self, first: int, end: int) -> Block:
        lengths = self.lengths[first:end]
        num_rows = len(lengths)
        length = lengths[0]
        if self.device.type == "cpu":
            num_rows = rounded_up(num_rows, steps=4, smallest=1)
            length = padded_length(length)
        pattern = self.pattern.within(lengths[0])
        columns = None
        if self.columns is not None:
            start = sum(self.lengths[:first])
            pattern = self.pattern
            columns = self.columns[start : start + sum(lengths)]
        first_queries = FIRST_QUERIES if self.by_length else 1
        return Block(lengths, num_rows, length, self.device, pattern, columns, first, first_queries)

    @cached_property
    def bounds(self) -> Bounds:
        starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        return Bounds(send(torch.from_numpy(starts), self.device), self.lengths[0])

    @cached_property
    def first_bounds(self) -> Bounds:
        """The bounds of a row that has only the first token of each sequence."""
        count = len(self.lengths)
        return Bounds(torch.arange(count + 1, dtype=torch.int32, device=self.device), 1)


class BlockLayout:
    """The sequences of a packed row, with a view for each pattern of attention among the layers.

    `position_ids` and `columns`, int64 [tokens], are those of the batch; `by_length` is that of
    `AttentionView`.
    """

    def __init__(
        self,
        lengths: tuple[int, ...],
        device: torch.device,
        position_ids: Tensor | None = None,
        columns: Tensor | None = None,
        *,
        by_length: bool = False,
    ) -> None:
        self.lengths = lengths
        self.by_length = by_length
        self.device = device
        self.position_ids = position_ids
        self.columns = None if columns is None else columns.cpu().numpy()
        self._views: dict[AttentionPattern, AttentionView] = {}
        self._rotations: dict[tuple[float, int], Rotation] = {}

    def rotation(self, theta: float, head_size: int) -> Rotation:
        """Return the rotation of queries and keys by their positions, made once for all layers.

        Args:
            theta: base of the wavelengths, as `Rotation` takes it.
        """
        assert self.position_ids is not None
        key = theta, head_size
        if key not in self._rotations:
            self._rotations[key] = Rotation.of(self.position_ids, theta, head_size)
        return self._rotations[key]

    def view(self, pattern: AttentionPattern = FULL) -> AttentionView:
        """Return the row as attention with this pattern reads it, made once for all layers."""
        pattern = pattern.within(self._span)
        if pattern not in self._views:
            columns = self.columns if pattern.window is not None else None
            self._views[pattern] = AttentionView(
                self.lengths, self.device, pattern, columns, self.by_length
            )
        return self._views[pattern]

    @property
    def _span(self) -> int:
        """The most columns that a sequence can take."""
        return self.lengths[0] if self.columns is None else int(np.ptp(self.columns)) + 1


class _ToBlock(torch.autograd.Function):
    """Gather queries, keys and values of a row into a block.

    The backward pass gathers as well. torch would add up gradients one by one, since it does not
    know that each cell's gradient belongs to one token at most.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: HeadPlaces) -> Tensor:
        ctx.places = places
        return rows.index_select(0, places.parts_in_row)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.places.parts_in_block), None


class _ToRow(torch.autograd.Function):
    """Gather contexts of a block into a row.

    Cells without a token get no gradient.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: HeadPlaces) -> Tensor:
        ctx.places = places
        return rows.index_select(0, places.context_in_block)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        context_gradient = gradient.index_select(0, ctx.places.context_in_row)
        return context_gradient.index_fill_(0, ctx.places.context_of_none, 0), None


def split_heads(qkv: Tensor, block: Block, num_heads: int) -> Tensor:
    """Gather [tokens, 3 * hidden] of a row to [3, rows, heads, length, head_size] of a block.

    The dtype stays. In the backward pass cells without a token give no gradient to the row.
    """
    size = qkv.shape[-1] // (3 * num_heads)
    heads: Tensor = _ToBlock.apply(qkv.reshape(-1, size), block.places(num_heads))  # type: ignore[no-untyped-call]
    return heads.view(3, block.num_rows, num_heads, block.length, size)


def join_heads(context: Tensor, block: Block) -> Tensor:
    """Gather [rows, heads, length, head_size] of a block to [tokens, hidden] of a row.

    The dtype stays. In the backward pass cells without a token get no gradient.
    """
    _, num_heads, _, size = context.shape
    tokens: Tensor = _ToRow.apply(context.reshape(-1, size), block.places(num_heads))  # type: ignore[no-untyped-call]
    return tokens.view(block.num_tokens, num_heads * size)
