"""Division of a packed row into blocks of neighbouring sequences of similar length."""

import math
from functools import lru_cache

from bertsmith.model.shape_buckets import rounded_up

MAX_PADDING = 1 / 8
"""The largest share of a block's cells that may be padding."""

FREE_PADDING = 64
"""Cells of padding that a block may always have: they cost less than one more block."""

MAX_SCORES = 2**19
"""Scores per head that a block may hold on a CPU: 2 MB in fp32, two sequences of 512 tokens."""


@lru_cache(maxsize=256)
def cut_blocks(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks, as ranges `(first, end)`; `lengths` never rises.

    A block takes the next sequence as long as its padding stays within `MAX_PADDING` of its cells
    or within `FREE_PADDING` cells, and its scores within `max_scores`.

    >>> cut_blocks((128, 128, 120, 40, 7))
    [(0, 3), (3, 5)]
    """
    blocks = []
    first = tokens = 0
    for i, length in enumerate(lengths):
        longest = lengths[first]
        cells = (i + 1 - first) * longest
        allowed = max(MAX_PADDING * cells, FREE_PADDING)
        if i > first and (cells - tokens - length > allowed or cells * longest > max_scores):
            blocks.append((first, i))
            first = i
            tokens = 0
        tokens += length
    return [*blocks, (first, len(lengths))]


@lru_cache(maxsize=256)
def cut_by_length(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks of one padded length, as ranges `(first, end)`.

    `lengths` never rises. No sequence is padded to a longer neighbour, so the padded length of each
    depends on its own length alone: with another one, sums over keys may be rounded differently. A
    block's scores stay within `max_scores`, unless it holds a single sequence.

    >>> cut_by_length((128, 128, 120, 40, 7))
    [(0, 3), (3, 4), (4, 5)]
    """
    blocks = []
    first = 0
    for i, length in enumerate(lengths):
        longest = lengths[first]
        is_full = i > first and (i + 1 - first) * longest**2 > max_scores
        if is_full or padded_length(length) < padded_length(longest):
            blocks.append((first, i))
            first = i
    return [*blocks, (first, len(lengths))]


def padded_length(length: int) -> int:
    """Return the length of a block on a CPU whose longest sequence has `length` tokens."""
    return rounded_up(length, steps=8)
