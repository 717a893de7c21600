"""The sequences of a packed row: their bounds, their cells, and tokens picked from them.

A packed row has the tokens of several sequences one after another. Attention by dense products
needs a padded array with one row for each of some neighbouring sequences: its entries are *cells*,
each with a token or with padding.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.model.block_cuts import padded_length
from bertsmith.model.cells import Cells
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.model.varlen import Bounds


@dataclass(frozen=True, eq=False)
class PackedRow:
    """The sequences of a packed row: one after another, without padding.

    `columns`, int64 [tokens], are the tokens' columns in the caller's padded batch; None if those
    of each sequence are 0, 1, 2 and so on. The method `cells` describes the padded array of some
    sequences. On a CPU its number of rows is rounded up, and with `pads` its length, too, so that
    few shapes occur (`model/shape_buckets.py`): for each new shape machine code is generated.
    """

    lengths: tuple[int, ...]
    device: torch.device
    columns: np.ndarray | None = field(default=None, repr=False)
    pads: bool = True
    _cells: dict[tuple[int, int], Cells] = field(default_factory=dict, repr=False)

    @cached_property
    def starts(self) -> np.ndarray:
        """The index of each sequence's first token, and the row's end, int64 [sequences + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of the sequences as the CUDA kernel for a whole row takes them."""
        starts = torch.from_numpy(self.starts.astype(np.int32))
        return Bounds(send(starts, self.device), max(self.lengths))

    def cells(self, first: int, end: int) -> Cells:
        """Return the cells of the sequences from `first` to before `end`, made once."""
        if (first, end) not in self._cells:
            lengths = self.lengths[first:end]
            num_rows, length = len(lengths), max(lengths)
            if self.device.type == "cpu":
                num_rows = rounded_up(num_rows, steps=4, smallest=1)
                length = padded_length(length) if self.pads else length
            columns = None
            if self.columns is not None:
                columns = self.columns[self.starts[first] : self.starts[end]]
            self._cells[first, end] = Cells(lengths, num_rows, length, self.device, columns)
        return self._cells[first, end]


@dataclass(frozen=True, eq=False)
class PickedTokens:
    """One token of each sequence of a packed row, such as the first or the last.

    `index`, int64 [sequences], are their positions in that row; `row` is a packed row of these
    tokens.
    """

    index: Tensor
    row: PackedRow

    @classmethod
    def first(cls, row: PackedRow, *, pads: bool) -> "PickedTokens":
        """Pick the first token of each sequence.

        In the row of picked tokens each sequence has one token. With `pads` this token gets the 16
        cells of `padded_length`, so attention on a CPU computes 16 queries in place of one. The
        fused kernel rounds a single query differently in each thread; with 16, a result is the same
        in any batch. Without `pads` the work for the 15 others is saved.
        """
        columns = None if row.columns is None else row.columns[row.starts[:-1]]
        return cls._pick(row, row.starts[:-1], columns, pads)

    @classmethod
    def last(cls, row: PackedRow, *, pads: bool) -> "PickedTokens":
        """Pick the last token of each sequence; `pads` as in `first`."""
        indices = row.starts[1:] - 1
        # Without `row.columns`, the last of n tokens is in column n - 1.
        columns = np.array(row.lengths) - 1 if row.columns is None else row.columns[indices]
        return cls._pick(row, indices, columns, pads)

    @classmethod
    def _pick(
        cls, row: PackedRow, indices: np.ndarray, columns: np.ndarray | None, pads: bool
    ) -> "PickedTokens":
        picked = PackedRow((1,) * len(row.lengths), row.device, columns, pads)
        return cls(send(torch.from_numpy(indices), row.device), picked)
