"""Words as sequences of tokens, and counts of neighbouring tokens, for learning BPE and WordPiece.

The tokens of all words are in one flat array, each linked to its neighbours. So a merge reads and
writes only the entries where its pair occurs, in a handful of array operations. Memory is some 30
bytes for each character of the distinct words, and 30 for each pair of tokens that ever were
neighbours.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CONTINUATION = "##"
"""Beginning of a WordPiece token that continues a word."""
LEFT, RIGHT = 0, 1
"""Sides of a pair of tokens; indices of what a `PairTable` keeps for each side."""

Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
TokenIds = Indices | Ints
"""Ids of tokens: int32 in the array of words, int64 of a pair that is merged."""
Cut = Callable[[str], Sequence[str]]
"""Function that splits a word into its initial tokens."""

# Entries of the flat array that are no token: word boundaries, and right tokens of merged pairs.
_BOUNDARY, _ABSORBED = -1, -2


@dataclass(frozen=True, slots=True)
class MergeChange:
    """Neighbours of the merged pairs, int32 ids, with the counts of their words, int64.

    `pair_weights` has an entry for each occurrence of the pair, `before` for each one with a left
    neighbour, and `after_old` and `after_new` for each one with a right neighbour. These two are
    the right neighbours before and after the merge: where the pair occurs twice in a row, its first
    token before, and the merged token after.
    """

    pair_weights: Ints
    before: Indices
    before_weights: Ints
    after_old: Indices
    after_new: Indices
    after_weights: Ints


class Segmentation:
    """All words, cut into tokens.

    `frequency` has the occurrences of each token, weighted by the counts of words, int64 `[tokens]`
    or longer; `num_pieces` is the sum of all frequencies.
    """

    def __init__(self, words: Mapping[str, int], ids: Mapping[str, int], cut: Cut) -> None:
        # For each entry of the flat array: its token, the count of its word, and the indices of the
        # entries beside it, without those that merges have absorbed.
        self._symbol, self._weight = _flatten(words, ids, cut)
        indices = np.arange(len(self._symbol), dtype=np.int32)
        self._following = indices + np.int32(1)
        self._preceding = indices - np.int32(1)
        # For each token the indices at which it is. Indices at which it was before a merge stay in
        # the list until `_live_indices` drops them.
        inside = self._symbol != _BOUNDARY
        self._indices = _group(indices[inside], self._symbol[inside], len(ids))
        self.frequency = np.array(
            [self._weight[own_indices].sum() for own_indices in self._indices], dtype=np.int64
        )
        self.num_pieces = int(self.frequency.sum())

    def add_piece(self) -> None:
        """Make room for one more token, which occurs nowhere yet."""
        self._indices.append(np.empty(0, dtype=np.int32))
        self.frequency = grow_array(self.frequency, len(self._indices), 0)

    def neighbours(self) -> tuple[Indices, Indices, Ints]:
        """Return left token, right token (int32) and weight (int64) of all neighbours.

        Each is `[pairs]`.
        """
        left, right = self._symbol[:-1], self._symbol[1:]
        meet = (left != _BOUNDARY) & (right != _BOUNDARY)
        return left[meet], right[meet], self._weight[:-1][meet]

    def merge(self, left: int, right: int, merged: int) -> MergeChange:
        """Replace a pair by `merged` wherever it occurs, from left to right.

        The left token of each occurrence becomes `merged`, and the right one is absorbed.
        """
        first = self._occurrences(left, right)
        second = self._following[first]
        before, after = self._preceding[first], self._following[second]
        after_old = self._symbol[after]
        self._symbol[second] = _ABSORBED
        # Where the pair occurs twice in a row, the two merged tokens are neighbours, which is
        # counted once: as the right neighbour of the first. The token before the second is
        # absorbed, so `has_before` leaves it out.
        has_before = self._symbol[before] >= 0
        self._symbol[first] = merged
        self._following[first] = after
        self._preceding[after] = first
        has_after = after_old >= 0
        weight = self._weight[first]
        self._move(left, right, merged, first, int(weight.sum()))
        return MergeChange(
            pair_weights=weight,
            before=self._symbol[before[has_before]],
            before_weights=weight[has_before],
            after_old=after_old[has_after],
            after_new=self._symbol[after[has_after]],
            after_weights=weight[has_after],
        )

    def _occurrences(self, left: int, right: int) -> Indices:
        """Find the indices of the left tokens of a pair, without overlapping pairs."""
        if len(self._indices[left]) <= len(self._indices[right]):
            first = self._live_indices(left)
            first = first[self._symbol[self._following[first]] == right]
        else:
            first = self._preceding[self._live_indices(right)]
            first = first[self._symbol[first] == left]
        return self._every_other(first) if left == right else first

    def _every_other(self, first: Indices) -> Indices:
        """Keep the first, third, … pair of each run of overlapping pairs, as in `aaaa`."""
        first = np.sort(first)
        index = np.arange(len(first))
        starts_run = np.ones(len(first), dtype=bool)
        starts_run[1:] = self._following[first[:-1]] != first[1:]
        # For each pair the index of the first pair of its run.
        run_start = np.maximum.accumulate(np.where(starts_run, index, 0))
        return first[(index - run_start) % 2 == 0]

    def _live_indices(self, piece: int) -> Indices:
        """Return the indices of `piece`, after dropping those where it was merged away."""
        indices = self._indices[piece]
        live: Indices = indices[self._symbol[indices] == piece]
        self._indices[piece] = live
        return live

    def _move(self, left: int, right: int, merged: int, first: Indices, weight: int) -> None:
        """Move occurrences of total count `weight` from the tokens of a pair to `merged`."""
        self._indices[merged] = np.concatenate([self._indices[merged], first])
        self.frequency[left] -= weight
        self.frequency[right] -= weight
        self.frequency[merged] += weight
        self.num_pieces -= weight


class PairTable:
    """Counts of pairs of neighbouring tokens, found from either token.

    Each pair has a slot, an index of the arrays `ends`, the left and right token, and `count`, the
    occurrences of the pair. A slot whose count has fallen to zero is dead and never used again.
    """

    def __init__(self) -> None:
        self.ends = [np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)]
        self.count = np.empty(0, dtype=np.int64)
        self._num_slots = 0
        # For each side and token, the slots of pairs that have the token at this side.
        self._slots: tuple[list[array[int]], list[array[int]]] = ([], [])
        self._slot_of_other = np.empty(0, dtype=np.int32)  # by token; for `_find` alone

    def slots(self, piece: int, side: int) -> Indices:
        """Return the live slots of pairs with `piece` at `side`, int32 `[slots]`."""
        slots = np.array(self._list(piece, side), dtype=np.int32)
        live = slots[self.count[slots] > 0]
        if len(live) < len(slots):
            self._slots[side][piece] = array("i", live.tobytes())
        return live

    def change(self, piece: int, side: int, others: TokenIds, weights: Ints) -> None:
        """Add `weights`, int64 `[pairs]`, to the pairs of `piece` with `others`, ids `[pairs]`.

        `piece` stands at `side` of these pairs, the others at their other side. An id in `others`
        may occur several times; its weights add up.
        """
        others, weights = _sum_by_key(others, weights)
        slots = self._find(piece, side, others)
        exists = slots >= 0
        self.count[slots[exists]] += weights[exists]
        self._create(piece, side, others[~exists], weights[~exists])

    def _find(self, piece: int, side: int, others: TokenIds) -> Indices:
        """Return the slots of pairs of `piece` with `others`, or -1."""
        slots = self.slots(piece, side)
        ends = self.ends[1 - side][slots]
        size = max(others.max(initial=-1), ends.max(initial=-1)) + 1
        # Entries that earlier calls left in the array stay; only those read below are set anew.
        self._slot_of_other = grow_array(self._slot_of_other, size, -1)
        self._slot_of_other[others] = -1
        self._slot_of_other[ends] = slots
        return self._slot_of_other[others]

    def _create(self, piece: int, side: int, others: TokenIds, weights: Ints) -> None:
        """Make slots with these weights for new pairs of `piece` with `others`."""
        start, stop = self._num_slots, self._num_slots + len(others)
        self.count = grow_array(self.count, stop, 0)
        self.ends = [grow_array(ends, stop, 0) for ends in self.ends]
        self.count[start:stop] = weights
        self.ends[side][start:stop] = piece
        self.ends[1 - side][start:stop] = others
        self._list(piece, side).extend(range(start, stop))
        for slot, other in enumerate(others.tolist(), start):
            self._list(other, 1 - side).append(slot)
        self._num_slots = stop

    def _list(self, piece: int, side: int) -> "array[int]":
        """Return the slots, dead ones too, of pairs with `piece` at `side`."""
        lists = self._slots[side]
        lists.extend(array("i") for _ in range(piece + 1 - len(lists)))
        return lists[piece]


def characters(word: str) -> list[str]:
    """Split a word into one token per character.

    >>> characters("abc")
    ['a', '##b', '##c']
    """
    return [word[0], *(CONTINUATION + character for character in word[1:])]


def _flatten(words: Mapping[str, int], ids: Mapping[str, int], cut: Cut) -> tuple[Indices, Ints]:
    """Return token ids and word counts, with boundaries around each word."""
    symbol = array("i", [_BOUNDARY])
    weight = array("q", [0])
    for word, count in words.items():
        pieces = cut(word)
        symbol.extend([ids[piece] for piece in pieces])
        symbol.append(_BOUNDARY)
        weight.extend([count] * (len(pieces) + 1))
    return np.array(symbol, dtype=np.int32), np.array(weight, dtype=np.int64)


def _group(values: Indices, keys: Indices, num_keys: int) -> list[Indices]:
    """Split `values` by their keys 0 ... num_keys - 1, order kept."""
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(keys[order], np.arange(1, num_keys))
    return [group.copy() for group in np.split(values[order], bounds)]


def _sum_by_key(keys: TokenIds, weights: Ints) -> tuple[TokenIds, Ints]:
    """Sum the weights of each distinct key; the result is sorted by key."""
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(weights, starts) if len(starts) else weights


def grow_array(values: npt.NDArray[Any], size: int, fill: float) -> npt.NDArray[Any]:
    """Return `values`, or a longer copy with at least `size` entries, in the same dtype.

    The length grows by doubling, and new entries are `fill`. `values` has one dimension,
    `[entries]`.
    """
    if size <= len(values):
        return values
    longer = np.full(max(size, 2 * len(values)), fill, dtype=values.dtype)
    longer[: len(values)] = values
    return longer
