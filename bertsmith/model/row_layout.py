"""The attention views and rotations of a packed row, which all layers share in a forward pass.

A packed row has the tokens of several sequences one after another. A view says which keys each
query sees, and computes attention; a rotation turns queries and keys by their positions (RoPE).
"""

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Queries
from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.blocks import BlockBias
from bertsmith.model.packed_row import PackedRow, PickedTokens
from bertsmith.model.packed_view import PackedView
from bertsmith.model.rotary import Rotation


class RowLayout:
    """The layout of a packed row, with a view for each attention pattern of the layers.

    `lengths` are the tokens of each sequence, the longest first. `position_ids` and `columns`,
    int64 [tokens], are each token's position, and its column in the caller's padded batch; both may
    be None (`Batch`). With `by_length`, a sequence is padded by its own length alone, so that its
    outputs have the same bytes in any batch.
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
        self.row = PackedRow(lengths, device, None if columns is None else columns.cpu().numpy())
        self.by_length = by_length
        self.position_ids = position_ids
        self._views: dict[tuple[AttentionPattern, BlockBias | None], PackedView] = {}
        self._rotations: dict[tuple[float, int], Rotation] = {}

    def rotation(self, theta: float, head_size: int) -> Rotation:
        """Return the rotation of queries and keys by their positions, made once for all layers.

        Args:
            theta: base of the wavelengths, such as 10,000.
        """
        assert self.position_ids is not None
        key = theta, head_size
        if key not in self._rotations:
            self._rotations[key] = Rotation.of(self.position_ids, theta, head_size)
        return self._rotations[key]

    def view(
        self,
        pattern: AttentionPattern = FULL,
        picked: PickedTokens | None = None,
        bias: BlockBias | None = None,
    ) -> PackedView:
        """Return the view of a pattern, made once for all layers that have the same `bias`.

        With `picked`, only these tokens have queries; only the last layer uses such a view. `bias`
        returns numbers to add to the scores of a block.
        """
        pattern = pattern.within(self._span)
        row = self.row
        if picked is not None:
            return PackedView(
                queries=picked.row,
                keys=row,
                pattern=pattern,
                picked=picked.index,
                by_length=self.by_length,
                bias=bias,
            )
        key = pattern, bias
        if key not in self._views:
            self._views[key] = PackedView(row, row, pattern, by_length=self.by_length, bias=bias)
        return self._views[key]

    def pick(self, queries: Queries) -> PickedTokens | None:
        """Pick the tokens whose vectors are wanted, the first or last ones; None for "all"."""
        if queries == "all":
            return None
        return self.pick_first_tokens() if queries == "first" else self.pick_last_tokens()

    def pick_first_tokens(self) -> PickedTokens:
        """Pick the first token of each sequence."""
        # For a single query the fused kernel rounds differently in each thread. So where bytes must
        # not depend on the batch, padding makes it 16 queries.
        return PickedTokens.first(self.row, pads=self.by_length)

    def pick_last_tokens(self) -> PickedTokens:
        """Pick the last token of each sequence, which in causal attention sees all others."""
        return PickedTokens.last(self.row, pads=self.by_length)

    @property
    def _span(self) -> int:
        """An upper limit of the columns that a sequence spans."""
        columns = self.row.columns
        return self.row.lengths[0] if columns is None else int(np.ptp(columns)) + 1
