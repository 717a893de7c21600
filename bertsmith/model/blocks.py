"""Blocks: some neighbouring sequences of a batch, for which attention uses padded arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.cells import Cells, to_bias


@dataclass(frozen=True)
class Block:
    """Neighbouring sequences as two padded arrays: one of queries, one of keys and values.

    Both arrays have the same number of rows, one for each sequence and perhaps some of padding
    (`Cells`). `pattern` says which keys of its sequence a query sees. `first` is the index of the
    block's first sequence among those of the whole batch; dropout draws by this index.
    """

    queries: Cells
    keys: Cells
    pattern: AttentionPattern = FULL
    first: int = 0

    @cached_property
    def bias(self) -> Tensor | None:
        """The mask added to scores: 0, or -inf at hidden keys; None if no key is hidden.

        It is fp32 [rows, 1, 1 or queries, keys].
        """
        if self.pattern == FULL:
            return self.keys.padding_bias
        # [queries, keys], or [rows, queries, keys] if each sequence has columns of its own. Columns
        # are those of the caller's padded batch, where padding may stand between tokens.
        allowed = self.pattern.allows(self.queries.cell_columns, self.keys.cell_columns)
        # In a cell without a token the query sees all keys: the softmax of a row of -inf would be
        # NaN, and so would gradients.
        is_seen = (self.keys.is_real[:, None] & allowed) | ~self.queries.is_real[:, :, None]
        return to_bias(is_seen, self.keys.device)


BlockBias = Callable[[Block], Tensor]
"""Returns numbers to add to a block's scores, fp32 [rows or 1, heads, queries, keys]."""
