"""Batches of encoder–decoder models: two packed rows, whose sequences are paired."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.model.packed_row import PackedRow


@dataclass(frozen=True)
class TokenRow:
    """Sequences one after another, without padding."""

    input_ids: Tensor
    """int64 [tokens]."""
    lengths: tuple[int, ...]
    """The number of tokens of each sequence."""
    by_length: bool = False
    """Whether attention pads a sequence by its own length alone, so that its results do not depend
    on the other sequences (`PackedView`)."""

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "TokenRow":
        """Join sequences of at least one token each, in their order."""
        ids = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
        return cls(torch.from_numpy(ids), tuple(map(len, sequences)))

    @cached_property
    def position_ids(self) -> Tensor:
        """The position of each token in its sequence, int64 [tokens]."""
        starts = np.cumsum(self.lengths) - self.lengths
        positions = np.arange(sum(self.lengths)) - np.repeat(starts, self.lengths)
        return send(torch.from_numpy(positions), self.input_ids.device)

    @cached_property
    def packed(self) -> PackedRow:
        """The row as attention reads it."""
        return PackedRow(self.lengths, self.input_ids.device)

    def to(self, device: torch.device) -> "TokenRow":
        return replace(self, input_ids=send(self.input_ids, device))


@dataclass(frozen=True)
class SourceTarget:
    """Pairs of a source, which the encoder reads, and a target, which the decoder must predict.

    Sequence `i` of `target` belongs to sequence `i` of `source`.
    """

    source: TokenRow
    target: TokenRow
    """The tokens that the decoder reads: a start token, then the target without its last token."""
    labels: Tensor
    """For each token of `target`, the token that must follow it, int64 [target tokens]."""
    order: tuple[int, ...]
    """The index of each pair in the lists that were passed to `of`."""
    step_indices: tuple[int, ...] = ()
    """The index of each pair in the training step, by which its dropout is drawn; empty outside of
    training."""

    @classmethod
    def of(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        start: int,
        step_indices: Sequence[int] = (),
    ) -> "SourceTarget":
        """Pack pairs of sequences, long ones first, so that neighbours are of similar lengths.

        Args:
            targets: ids that the decoder must predict, with the end token.
            start: the token that the decoder reads first.
            step_indices: the index of each pair in the training step, in the order of `sources`.
        """
        order = sorted(range(len(sources)), key=lambda i: (-len(targets[i]), -len(sources[i])))
        labels = TokenRow.of([targets[i] for i in order])
        return cls(
            TokenRow.of([sources[i] for i in order]),
            TokenRow.of([[start, *targets[i][:-1]] for i in order]),
            labels.input_ids,
            tuple(order),
            tuple(step_indices[i] for i in order) if step_indices else (),
        )

    @property
    def num_tokens(self) -> int:
        """The number of real tokens of both rows."""
        return len(self.source.input_ids) + len(self.target.input_ids)

    def to(self, device: torch.device) -> "SourceTarget":
        return replace(
            self,
            source=self.source.to(device),
            target=self.target.to(device),
            labels=send(self.labels, device),
        )
