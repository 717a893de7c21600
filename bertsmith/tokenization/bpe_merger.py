"""Application of the merges of byte-pair encoding to the symbols of a word, given as ids."""

import math
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import pairwise

MAX_RESCANNED = 24
"""Words of at most this many symbols are rescanned after each merge; longer ones use a heap."""


class Merger:
    """Merges of BPE, applied by rank, and from left to right (Sennrich et al. 2016, section 3.2).

    Args:
        merges: the ids of left, right and merged symbol, in the order of their ranks.
    """

    def __init__(self, merges: Iterable[tuple[int, int, int]]) -> None:
        self._ranks: dict[tuple[int, int], tuple[float, int]] = {}
        for rank, (left, right, merged) in enumerate(merges):
            self._ranks[left, right] = rank, merged  # of equal pairs the last one's rank counts

    def merge(self, symbols: list[int]) -> list[int]:
        """Merge symbols until no pair can be merged; the list `symbols` is overwritten."""
        if len(symbols) > MAX_RESCANNED:
            return self._merge_with_heap(symbols)
        return self._merge_by_rescanning(symbols)

    def _merge_by_rescanning(self, symbols: list[int]) -> list[int]:
        """Merge the best pair again and again; `merges` has rank and merged symbol of each pair."""
        find = self._ranks.get
        none = (math.inf, -1)  # ranks after every merge
        merges = [find(pair, none) for pair in pairwise(symbols)]
        while merges and (best := min(merges)) is not none:
            index = merges.index(best)
            symbols[index : index + 2] = [best[1]]
            del merges[index]
            if index:
                merges[index - 1] = find((symbols[index - 1], best[1]), none)
            if index < len(merges):
                merges[index] = find((best[1], symbols[index + 1]), none)
        return symbols

    def _merge_with_heap(self, symbols: list[int]) -> list[int]:
        """Merge symbols in a doubly linked list; the heap has rank, merged symbol and left index.

        The merged symbol takes the place of its left part, and the right part becomes -1.
        """
        find = self._ranks.get
        size = len(symbols)
        following = list(range(1, size + 1))
        preceding = list(range(-1, size - 1))
        heap = [
            (*merge, index) for index, pair in enumerate(pairwise(symbols)) if (merge := find(pair))
        ]
        heapify(heap)
        while heap:
            rank, merged, left = heappop(heap)
            right = following[left]
            if right == size or find((symbols[left], symbols[right])) != (rank, merged):
                continue  # one of the pair's symbols has been merged with another symbol meanwhile
            after = following[left] = following[right]
            symbols[left] = merged
            symbols[right] = -1
            if after < size:
                preceding[after] = left
                if merge := find((merged, symbols[after])):
                    heappush(heap, (*merge, left))
            before = preceding[left]
            if before >= 0 and (merge := find((symbols[before], merged))):
                heappush(heap, (*merge, before))
        return [symbol for symbol in symbols if symbol >= 0]
