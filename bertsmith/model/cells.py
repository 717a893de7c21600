"""Neighbouring sequences of a packed row as a padded array of cells, and back.

Index tables gather the heads of tokens into cells, and put them back, so every number and every
gradient is moved only once in each direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
        """The column of each cell, [length] or [rows, length]; arbitrary if it has no token."""
        if self.columns is None:
            return np.arange(self.length)
        columns = np.zeros(self.is_real.shape, dtype=np.int64)
        columns[self.is_real] = self.columns
        return columns

    def put_back(self, context: Tensor) -> Tensor:
        """Gather [rows, heads, length, size] of the cells to [tokens, heads * size] of the row.

        The dtype stays. In the backward pass cells without a token get no gradient.
        """
        row: Tensor = _ToRow.apply(context, self)  # type: ignore[no-untyped-call]
        return row

    def tables(self, num_heads: int) -> "HeadTables":
        """Return the index tables for `num_heads`, shared by all layers."""
        if num_heads not in self._tables:
            self._tables[num_heads] = HeadTables(self.is_real, num_heads, self.device)
        return self._tables[num_heads]


@dataclass(frozen=True)
class HeadTables:
    """Index tables from the heads of a packed row to those of the cells, and back.

    An index is that of a vector of head_size numbers: one of the [tokens * step] vectors of the row
    or of the [rows * heads * length] vectors of the cells. A table is an int64 vector and is
    computed on its first use, since half of the tables are needed for gradients only.

    Args:
        is_real: cells that hold a token, bool [rows, length].
    """

    is_real: np.ndarray
    num_heads: int
    device: torch.device
    _in_row: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def in_row(self, step: int) -> Tensor:
        """Return the index in the row of each vector of the cells.

        `step` is the number of vectors from one token to the next, at least `num_heads`.
        """
        if step not in self._in_row:
            # The token of each cell, or the one before it if the cell has none: [rows, length].
            tokens = (self.is_real.cumsum(dtype=np.int64) - 1).reshape(self.is_real.shape)
            heads = np.arange(self.num_heads)
            indices = tokens[:, None, :] * step + heads[:, None]  # [rows, heads, length]
            self._in_row[step] = self._send(indices)
        return self._in_row[step]

    @cached_property
    def in_cells(self) -> Tensor:
        """The index in the cells of each vector of the row's [tokens, heads]."""
        return self._send(self._cell_indices[self.is_real])

    @cached_property
    def without_token(self) -> Tensor:
        """The indices in the cells of the vectors that belong to no token."""
        return self._send(self._cell_indices[~self.is_real])

    @property
    def _cell_indices(self) -> np.ndarray:
        """The index of each head of each cell, [rows, length, heads]."""
        rows, length = self.is_real.shape
        indices = np.arange(rows * self.num_heads * length).reshape(rows, self.num_heads, length)
        return indices.transpose(0, 2, 1)

    def _send(self, indices: np.ndarray) -> Tensor:
        return send(torch.from_numpy(indices.reshape(-1)), self.device)


def to_bias(is_seen: np.ndarray, device: torch.device) -> Tensor:
    """Turn a mask, bool [rows, 1 or queries, keys], into fp32 [rows, 1, 1 or queries, keys]."""
    bias = np.where(is_seen, np.float32(0), np.float32(-np.inf))
    return send(torch.from_numpy(bias[:, None]), device)


def gather(rows: Sequence[Tensor], cells: Sequence[Cells]) -> tuple[Tensor, ...]:
    """Gather each [tokens, heads, size] of `rows` to [rows, heads, length, size] of its cells.

    The dtype stays. Each of `rows` may be a part of a larger array. In the backward pass cells
    without a token give no gradient.
    """
    if not torch.is_grad_enabled():
        return tuple(map(_gather, rows, cells))
    gathered: tuple[Tensor, ...] = _ToCells.apply(cells, *rows)  # type: ignore[no-untyped-call]
    return gathered


class _ToCells(torch.autograd.Function):
    """Gather heads of rows into cells, several arrays in one call, since each call takes time.

    The backward pass gathers, too: each token takes the gradient of its own cell. torch would add
    the gradients of all cells to the tokens, one by one.
    """

    @staticmethod
    def forward(ctx: Any, cells: Sequence[Cells], *rows: Tensor) -> tuple[Tensor, ...]:
        ctx.cells = cells
        return tuple(map(_gather, rows, cells))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *map(_gather_back, gradients, ctx.cells)


def _gather(heads: Tensor, cells: Cells) -> Tensor:
    """Gather [tokens, heads, size] of a row to [rows, heads, length, size] of the cells."""
    num_tokens, num_heads, size = heads.shape
    if heads.stride(0) % size or heads.stride()[1:] != (size, 1):
        heads = heads.contiguous()
    step = heads.stride(0) // size
    # Between the heads of two tokens there may be vectors of other arrays.
    vectors = heads.as_strided(((num_tokens - 1) * step + num_heads, size), (size, 1))
    gathered = vectors.index_select(0, cells.tables(num_heads).in_row(step))
    return gathered.view(cells.num_rows, num_heads, cells.length, size)


def _gather_back(gradient: Tensor, cells: Cells) -> Tensor:
    """Gather [rows, heads, length, size] of the cells to [tokens, heads, size] of the row."""
    _, num_heads, _, size = gradient.shape
    row_gradient = gradient.reshape(-1, size).index_select(0, cells.tables(num_heads).in_cells)
    return row_gradient.view(-1, num_heads, size)


class _ToRow(torch.autograd.Function):
    """Gather contexts of cells into a row. Cells without a token get no gradient."""

    @staticmethod
    def forward(ctx: Any, context: Tensor, cells: Cells) -> Tensor:
        ctx.cells = cells
        ctx.shape = context.shape
        _, num_heads, _, size = context.shape
        row = context.reshape(-1, size).index_select(0, cells.tables(num_heads).in_cells)
        return row.view(-1, num_heads * size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _, num_heads, _, size = ctx.shape
        tables = ctx.cells.tables(num_heads)
        cell_gradient = gradient.reshape(-1, size).index_select(0, tables.in_row(num_heads))
        return cell_gradient.index_fill_(0, tables.without_token, 0).view(ctx.shape), None
