"""Neighbouring sequences of a packed row as a padded array of cells, and back.

A packed row has queries, keys, values and contexts (the outputs of attention) as [tokens, heads,
size]. Attention by dense products takes them as [rows, heads, length, size], with one row of cells
for each sequence. Index tables gather the heads of tokens straight into that order, and back. So
every number and every gradient is moved once in each direction, and not twice, to pad and to
transpose.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send


@dataclass(frozen=True)
class Cells:
    """Neighbouring sequences of a packed row as an array [rows, length] of cells.

    There may be more rows than sequences, and a row may be longer than the longest sequence. A cell
    without a token repeats the token before it. In the row of a sequence that is the sequence's own
    last token, so nothing passes from one sequence to another, not even NaN. `columns`, int64
    [tokens], are the tokens' columns in the caller's padded batch; None if the tokens of each
    sequence have the columns 0, 1, 2 and so on.
    """

    lengths: tuple[int, ...]
    num_rows: int
    length: int
    device: torch.device
    columns: np.ndarray | None = field(default=None, repr=False, compare=False)
    _tables: dict[int, "HeadTables"] = field(default_factory=dict, repr=False, compare=False)

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
    def padding_bias(self) -> Tensor | None:
        """The bias that hides cells without a token from all queries, as in `Block.bias`.

        fp32 [rows, 1, 1, length]; None if every cell has a token.
        """
        if self.is_real.all():
            return None
        is_seen = self.is_real.copy()
        is_seen[self.num_sequences :] = True  # a row that sees nothing would be NaN
        return to_bias(is_seen[:, None], self.device)

    @property
    def cell_columns(self) -> np.ndarray:
        """The column of each cell's token, as in `columns`; arbitrary in a cell without a token.

        [length] if `columns` is None, as all rows then have the same; else [rows, length].
        """
        if self.columns is None:
            return np.arange(self.length)
        columns = np.zeros(self.is_real.shape, dtype=np.int64)
        columns[self.is_real] = self.columns
        return columns

    def put_back(self, context: Tensor) -> Tensor:
        """Gather [rows, heads, length, size] of the cells to [tokens, heads * size] of the row.

        The dtype stays. In the backward pass cells without a token get no gradient.
        """
        return put_back((context,), (self,), self.num_tokens)

    def tables(self, num_heads: int) -> "HeadTables":
        """Return the index tables for `num_heads` heads; all layers share them."""
        if num_heads not in self._tables:
            self._tables[num_heads] = (
                _tables_of_single_cells(self.num_sequences, self.num_rows, num_heads, self.device)
                if self.length == 1
                else HeadTables(self.is_real, num_heads, self.device)
            )
        return self._tables[num_heads]


@dataclass(frozen=True)
class HeadTables:
    """Index tables from the heads of a packed row to those of the cells, and back.

    Row and cells are seen as lists of vectors of head_size numbers, one for each head of a token or
    cell; an index is the position of a vector in such a list. The row's list has `step` vectors for
    each token (see `in_row`); the list of the cells has the order [rows, heads, length]. A table is
    an int64 vector and is computed on its first use, since half of them serve gradients alone.

    Args:
        is_real: cells that hold a token, bool [rows, length].
    """

    is_real: np.ndarray
    num_heads: int
    device: torch.device
    _in_row: dict[tuple[int, tuple[int, ...]], Tensor] = field(
        default_factory=dict, repr=False, compare=False
    )

    def in_row(self, step: int, starts: tuple[int, ...] = (0,)) -> Tensor:
        """Return for each vector of the cells its index in the row's list.

        `step` is the number of vectors from one token to the next, at least `num_heads`. A token's
        vectors may hold several arrays of heads, such as queries, keys and values. These arrays
        begin at `starts`, and the table has the cells of all of them, one array after another.
        """
        if (step, starts) not in self._in_row:
            heads = np.array(starts)[:, None] + np.arange(self.num_heads)  # [arrays, heads]
            # [arrays, rows, heads, length]
            indices = self._tokens[:, None, :] * step + heads[:, None, :, None]
            self._in_row[step, starts] = self._send(indices)
        return self._in_row[step, starts]

    @cached_property
    def in_cells(self) -> Tensor:
        """For each vector of the row's [tokens, heads], its index in the list of the cells."""
        return self._send(self._cell_indices[self.is_real])

    @cached_property
    def without_token(self) -> Tensor:
        """The indices, in the list of the cells, of vectors that belong to no token."""
        return self._send(self._cell_indices[~self.is_real])

    @cached_property
    def _tokens(self) -> np.ndarray:
        """The index of each cell's token, [rows, length]; without one, of the token before it."""
        return (self.is_real.cumsum(dtype=np.int64) - 1).reshape(self.is_real.shape)

    @cached_property
    def _cell_indices(self) -> np.ndarray:
        """The index of each head of each cell, [rows, length, heads]."""
        rows, length = self.is_real.shape
        indices = np.arange(rows * self.num_heads * length).reshape(rows, self.num_heads, length)
        return indices.transpose(0, 2, 1)

    def _send(self, indices: np.ndarray) -> Tensor:
        return send(torch.from_numpy(indices.reshape(-1)), self.device)


@lru_cache(maxsize=256)
def _tables_of_single_cells(
    num_sequences: int, num_rows: int, num_heads: int, device: torch.device
) -> HeadTables:
    """Return the tables of rows of one cell, such as those of [CLS] in the last layer.

    These tables are kept for later steps: they are small, and most steps need the same ones. Tables
    of longer rows are large, and two steps seldom need the same.
    """
    return HeadTables(np.arange(num_rows)[:, None] < num_sequences, num_heads, device)


def to_bias(is_seen: np.ndarray, device: torch.device) -> Tensor:
    """Turn a mask, bool [rows, 1 or queries, keys], into fp32 [rows, 1, 1 or queries, keys]."""
    bias = np.where(is_seen, np.float32(0), np.float32(-np.inf))
    return send(torch.from_numpy(bias[:, None]), device)


def gather(rows: Sequence[Tensor], cells: Sequence[Cells]) -> tuple[Tensor, ...]:
    """Gather arrays of a packed row, such as its queries, keys and values, to their cells.

    `rows` are these arrays, each [tokens, heads, size] and perhaps a part of a larger array.
    `cells` has the cells of each, and each result is [rows, heads, length, size] of these cells.
    The dtype stays. In the backward pass cells without a token give no gradient.
    """
    return next(iter(gather_blocks(rows, [cells])))


def gather_blocks(
    rows: Sequence[Tensor], blocks: Sequence[Sequence[Cells]]
) -> Iterable[tuple[Tensor, ...]]:
    """Gather arrays of a packed row to their cells, as `gather` does, block by block.

    A block holds neighbouring sequences. `blocks[i][j]` are the cells of block `i` that get tokens
    of `rows[j]`. Each block begins at the token where the one before it ends; a row may have
    padding after the last block. Without gradients a block is gathered when it is asked for, so
    that only one needs to be in memory. With gradients all are kept for the backward pass anyway,
    and gathering them in one call takes less time.
    """
    if not torch.is_grad_enabled():
        return _gather_blocks(rows, blocks)
    gathered: tuple[Tensor, ...] = _ToCells.apply(blocks, *rows)  # type: ignore[no-untyped-call]
    step = len(rows)  # arrays of each block
    return [gathered[first : first + step] for first in range(0, len(gathered), step)]


def put_back(contexts: Iterable[Tensor], cells: Sequence[Cells], num_rows: int) -> Tensor:
    """Gather the cells of each block, [rows, heads, length, size], to one [num_rows, heads * size].

    The tokens of the blocks follow one another; rows beyond are zero. The dtype stays. In the
    backward pass cells without a token get no gradient.
    """
    if not torch.is_grad_enabled():
        return _put_back(contexts, cells, num_rows)
    row: Tensor = _ToRow.apply(cells, num_rows, *contexts)  # type: ignore[no-untyped-call]
    return row


class _ToCells(torch.autograd.Function):
    """Gather heads of rows into the cells of all blocks in one call, since each call takes time.

    The backward pass gathers, too: each token takes the gradient of its own cell. The backward pass
    of torch's own gathering would add the gradients of all cells to the tokens, one by one.
    """

    @staticmethod
    def forward(ctx: Any, blocks: Sequence[Sequence[Cells]], *rows: Tensor) -> tuple[Tensor, ...]:
        ctx.blocks = blocks
        ctx.row_lengths = [len(row) for row in rows]
        return tuple(part for block in _gather_blocks(rows, blocks) for part in block)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # Gradients come block by block, with one array for each row; they go back row by row.
        num_rows = len(ctx.row_lengths)
        gradients_by_row = [gradients[row::num_rows] for row in range(num_rows)]
        cells_by_row = zip(*ctx.blocks, strict=True)
        rows = zip(gradients_by_row, cells_by_row, ctx.row_lengths, strict=True)
        return None, *(
            _put_back(of_blocks, cells, length).view(length, of_blocks[0].shape[1], -1)
            for of_blocks, cells, length in rows
        )


class _ToRow(torch.autograd.Function):
    """Gather contexts of cells into a row, as `put_back` does.

    Cells without a token get the gradient 0.
    """

    @staticmethod
    def forward(ctx: Any, cells: Sequence[Cells], num_rows: int, *contexts: Tensor) -> Tensor:
        ctx.cells = cells
        ctx.heads_shape = contexts[0].shape[1], contexts[0].shape[3]
        return _put_back(contexts, cells, num_rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        num_heads, _ = ctx.heads_shape
        heads = gradient.reshape(len(gradient), *ctx.heads_shape)
        blocks = [(cells,) for cells in ctx.cells]
        gathered = [in_cells for (in_cells,) in _gather_blocks([heads], blocks)]
        for in_cells, cells in zip(gathered, ctx.cells, strict=True):
            without_token = cells.tables(num_heads).without_token
            in_cells.view(-1, in_cells.shape[-1]).index_fill_(0, without_token, 0)
        return None, None, *gathered


def _gather_blocks(
    rows: Sequence[Tensor], blocks: Sequence[Sequence[Cells]]
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the gathered arrays of each block, one for each of `rows`; see `gather_blocks`."""
    rows = [_with_adjacent_heads(row) for row in rows]
    groups = _group_by_array(rows, blocks)
    first_tokens = [0] * len(rows)  # index, in each row, of the block's first token
    for block in blocks:
        yield tuple(
            gathered
            for begin, end in groups
            for gathered in _gather(rows[begin:end], first_tokens[begin], block[begin])
        )
        first_tokens = [
            first + cells.num_tokens for first, cells in zip(first_tokens, block, strict=True)
        ]


def _with_adjacent_heads(heads: Tensor) -> Tensor:
    """Return [tokens, heads, size] such that the heads of a token follow one another in memory.

    Between the heads of two tokens there may be other vectors of `size` numbers.
    """
    size = heads.shape[2]
    is_adjacent = heads.stride(0) % size == 0 and heads.stride()[1:] == (size, 1)
    return heads if is_adjacent else heads.contiguous()


def _group_by_array(
    rows: Sequence[Tensor], blocks: Sequence[Sequence[Cells]]
) -> list[tuple[int, int]]:
    """Divide rows into ranges `(begin, end)` that one call gathers, since each call takes time.

    The rows of a range follow one another in one array, and go to the same cells. Queries, keys and
    values that one product computes are such rows.
    """
    ends = [
        end
        for end in range(1, len(rows))
        if not _are_parts(rows[end - 1], rows[end])
        or any(block[end - 1] is not block[end] for block in blocks)
    ]
    return list(pairwise([0, *ends, len(rows)]))


def _are_parts(first: Tensor, second: Tensor) -> bool:
    """Return whether a token's heads in `second` follow its heads in `first`, in one array."""
    distance = second.storage_offset() - first.storage_offset()
    return (
        first.shape == second.shape
        and first.stride() == second.stride()
        and 0 < distance < first.stride(0)
        and distance % first.shape[2] == 0
        and first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    )


def _gather(rows: Sequence[Tensor], first: int, cells: Cells) -> tuple[Tensor, ...]:
    """Gather the tokens of `rows`, parts of one array, from the token `first` on to their cells.

    Each row is [tokens, heads, size], each result [rows, heads, length, size].
    """
    heads = rows[0]
    _, num_heads, size = heads.shape
    # Positions in the array, counted in vectors of `size` numbers as `HeadTables.in_row` takes them
    step = heads.stride(0) // size
    begin = heads.storage_offset()
    starts = tuple((row.storage_offset() - begin) // size for row in rows)
    # A view of the array as a list of these vectors. It begins with the first head of the block's
    # first token in the first row, and ends with the last head of its last token in the last row.
    # So one call gathers from all of `rows`, which as separate tensors would take a call each.
    vectors = heads.as_strided(
        ((cells.num_tokens - 1) * step + starts[-1] + num_heads, size),
        (size, 1),
        begin + first * heads.stride(0),
    )
    gathered = vectors.index_select(0, cells.tables(num_heads).in_row(step, starts))
    return gathered.view(len(rows), cells.num_rows, num_heads, cells.length, size).unbind()


def _put_back(contexts: Iterable[Tensor], cells: Sequence[Cells], num_rows: int) -> Tensor:
    """Gather the cells of each block to a row; see `put_back`."""
    row: Tensor | None = None
    first = 0
    for context, block in zip(contexts, cells, strict=True):
        _, num_heads, _, size = context.shape
        if row is None:
            row = context.new_empty(num_rows, num_heads * size)
        end = first + block.num_tokens
        vectors = context.reshape(-1, size)
        out = row[first:end].view(-1, size)
        torch.index_select(vectors, 0, block.tables(num_heads).in_cells, out=out)
        first = end
    assert row is not None
    if first < num_rows:
        row[first:].zero_()
    return row
