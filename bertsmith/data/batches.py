"""The batch: real tokens of several sequences, packed into one row.

There is no padding between the sequences and none after them; `lengths` says where each
ends. Sequences stand in order of falling length, so that those of equal or similar length
are neighbours and attention can take them as one dense block without copying.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Packed sequences and what is to be predicted of them.

    Shapes: `input_ids`, `token_type_ids` and `position_ids` are int64 `[tokens]`, where
    `tokens == sum(lengths)`; `lengths` falls (never rises) from one sequence to the next.
    `targets` holds what an objective needs, by name, with indices into the packed row.
    `order[i]` is the place that packed sequence `i` had in the list given to `pack`.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    lengths: tuple[int, ...]
    order: tuple[int, ...]
    targets: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        """Real tokens in the batch; there are no others."""
        return len(self.input_ids)

    @property
    def num_sequences(self) -> int:
        """How many sequences share the row."""
        return len(self.lengths)

    @cached_property
    def first_tokens(self) -> Tensor:
        """Index of each sequence's first token in the packed row, int64 `[sequences]`."""
        ends = np.cumsum(np.asarray(self.lengths, dtype=np.int64))
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        return send(torch.from_numpy(starts), self.input_ids.device)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return replace(
            self,
            input_ids=send(self.input_ids, device),
            token_type_ids=send(self.token_type_ids, device),
            position_ids=send(self.position_ids, device),
            targets={name: send(value, device) for name, value in self.targets.items()},
        )


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on another device; a GPU fetches it while this process goes on.

    It reads a copy in pinned memory: from ordinary memory, copying waits for all that the GPU has
    still to do.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def pack(ids: Sequence[np.ndarray], type_ids: Sequence[np.ndarray] | None = None) -> Batch:
    """Put sequences of token ids one after another, longest first.

    Equal lengths keep their given order, so the same input always gives the same batch.
    Targets are left empty; add them with `dataclasses.replace`, by way of `batch.order`.
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
    position_ids = np.arange(len(input_ids)) - np.repeat(starts, sorted_lengths)
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        token_type_ids=torch.from_numpy(token_type_ids),
        position_ids=torch.from_numpy(position_ids),
        lengths=tuple(sorted_lengths.tolist()),
        order=tuple(order.tolist()),
    )


def group_by_length(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Divide sequences into groups of at most `max_tokens`, similar lengths together.

    The groups hold indices into `lengths`, longest first. A sequence longer than `max_tokens`
    has a group of its own.

    >>> group_by_length([3, 9, 4, 2], max_tokens=9)
    [[1], [2, 0, 3]]
    """
    groups: list[list[int]] = []
    room = 0
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        if not groups or lengths[index] > room:
            groups.append([])
            room = max_tokens
        groups[-1].append(index)
        room -= lengths[index]
    return groups


def deal_by_length(lengths: Sequence[int], num_parts: int) -> list[list[int]]:
    """Deal sequences out to parts of as equal a number of tokens as can be, all lengths in each.

    The parts hold indices into `lengths`, longest first. Each goes to the part that has the fewest
    tokens by then; where there are fewer sequences than parts, some parts stay empty.

    >>> deal_by_length([3, 9, 4, 2], num_parts=2)
    [[1], [2, 0, 3]]
    """
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    taken = [0] * num_parts
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        emptiest = taken.index(min(taken))
        parts[emptiest].append(index)
        taken[emptiest] += lengths[index]
    return parts


def divide_by_length(lengths: Sequence[int], num_groups: int) -> list[list[int]]:
    """Divide sequences into at most `num_groups` groups of about as many tokens, similar lengths
    together.

    The groups hold indices into `lengths`, longest first. Their tokens differ from the mean by the
    longest sequence at most, as long as that is no longer than the mean; else there are fewer.

    >>> divide_by_length([3, 9, 4, 2], num_groups=2)
    [[1], [2, 0, 3]]
    """
    if not lengths:
        return []
    longest_first = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    taken = np.asarray(lengths, dtype=np.int64)[longest_first]
    middles = 2 * taken.cumsum() - taken  # twice, so that they are whole
    group_of = middles * num_groups // (2 * taken.sum())
    ends = np.flatnonzero(np.diff(group_of)) + 1
    return [group.tolist() for group in np.split(longest_first, ends)]
