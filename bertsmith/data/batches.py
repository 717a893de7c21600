"""The batch that a model computes: several sequences, packed into one row without padding.

A sequence is one row of a padded batch, such as `[CLS] text [SEP]`. The longest sequence comes
first, so that sequences of similar length are neighbours, and attention can compute them as one
dense block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Queries = Literal["all", "first", "last"]
"""The tokens of each sequence whose final vectors are wanted: all, or the first or last one alone.
Only these tokens are queries of the attention in the last layer."""


@dataclass(frozen=True)
class Batch:
    """Packed sequences and their targets.

    Attributes:
        input_ids, token_type_ids: int64 `[tokens]`, where `tokens == sum(lengths)`.
        position_ids: int64 `[tokens]`; they begin at 0 in each sequence.
        lengths: number of tokens of each sequence; it never increases from one to the next.
        order: `order[i]` is the index of packed sequence `i` in the list passed to `pack`.
        targets: the targets of a task or of pre-training, by name, such as `masked_positions` and
            `masked_labels`. Indices of tokens in them are positions in the packed row.
        columns: the column of each token in the caller's padded rows, int64 `[tokens]`. It is None
            unless the caller's attention mask has padding between real tokens.
        step_indices: `step_indices[i]` is the index of packed sequence `i` among all sequences of
            its training step, by which dropout is drawn for the sequence. Outside of training
            `step_indices` is empty.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    lengths: tuple[int, ...]
    order: tuple[int, ...]
    targets: Mapping[str, Tensor] = field(default_factory=dict)
    columns: Tensor | None = None
    step_indices: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the batch; all are real."""
        return len(self.input_ids)

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @cached_property
    def first_tokens(self) -> Tensor:
        """The index of each sequence's first token in the packed row, int64 `[sequences]`."""
        ends = np.cumsum(np.asarray(self.lengths, dtype=np.int64))
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        return send(torch.from_numpy(starts), self.input_ids.device)

    @cached_property
    def last_tokens(self) -> Tensor:
        """The index of each sequence's last token in the packed row, int64 `[sequences]`."""
        ends = np.cumsum(np.asarray(self.lengths, dtype=np.int64))
        return send(torch.from_numpy(ends - 1), self.input_ids.device)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with all tensors on a device; see `send`."""
        return replace(
            self,
            input_ids=send(self.input_ids, device),
            token_type_ids=send(self.token_type_ids, device),
            position_ids=send(self.position_ids, device),
            targets={name: send(value, device) for name, value in self.targets.items()},
            columns=None if self.columns is None else send(self.columns, device),
        )

    def with_step_indices(self, step_indices: Sequence[int]) -> "Batch":
        """Return the batch with the index of each sequence in its training step.

        `step_indices` has the sequences in the order in which they were passed to `pack`; the batch
        then has the indices in the order of its packed sequences.
        """
        return replace(self, step_indices=tuple(step_indices[i] for i in self.order))


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of any shape and dtype to another device; to a GPU without waiting.

    For this the tensor is first copied to pinned memory: a copy from other memory waits until the
    GPU has done all its work.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def pack(ids: Sequence[np.ndarray], type_ids: Sequence[np.ndarray] | None = None) -> Batch:
    """Pack sequences of token ids into a batch, longest first.

    `ids` and `type_ids` are arrays of integers `[tokens]` for each sequence; without `type_ids` all
    are 0. Sequences of equal length keep their order. Targets are empty; the caller adds them with
    `dataclasses.replace`, in the order of `batch.order`.
    """
    lengths = np.asarray([len(row) for row in ids], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    input_ids = np.concatenate([ids[i] for i in order]).astype(np.int64)
    if type_ids is None:
        token_type_ids = np.zeros_like(input_ids)
    else:
        token_type_ids = np.concatenate([type_ids[i] for i in order]).astype(np.int64)
    sorted_lengths = lengths[order]
    starts = np.cumsum(sorted_lengths) - sorted_lengths
    # from 0 in each sequence: the index in the packed row minus the start of the token's sequence
    position_ids = np.arange(len(input_ids)) - np.repeat(starts, sorted_lengths)
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        token_type_ids=torch.from_numpy(token_type_ids),
        position_ids=torch.from_numpy(position_ids),
        lengths=tuple(sorted_lengths.tolist()),
        order=tuple(order.tolist()),
    )
