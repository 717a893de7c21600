"""Division of a packed row into blocks of neighbouring sequences of similar length.

A packed row has the tokens of several sequences, one after another. Attention is computed on each
block as a padded array [sequences, length], whose entries are called cells: each holds a token or
is padding.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from bertsmith.model.shape_buckets import rounded_up

MAX_PADDING = 1 / 8
"""The largest share of a block's cells that may be padding."""

FREE_PADDING = 64
"""Cells of padding that a block may always have: they cost less than one more block."""

MAX_SCORES = 2**19
"""Scores per head that a block may hold on a CPU: 2 MB in fp32, two sequences of 512 tokens."""


@lru_cache(maxsize=256)
def cut_blocks(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks, as ranges `(first, end)` of their indices.

    There are few blocks if the longest sequences come first. A block takes the next sequence as
    long as the block's padding stays within `MAX_PADDING` of its cells or within `FREE_PADDING`
    cells, and its scores within `max_scores`.

    >>> cut_blocks((128, 128, 120, 40, 7))
    [(0, 3), (3, 5)]
    """
    blocks = []
    first = num_tokens = longest = 0  # of the block to which the next sequence may belong
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        num_cells = (index + 1 - first) * longest
        padding = num_cells - num_tokens - length
        has_much_padding = padding > max(MAX_PADDING * num_cells, FREE_PADDING)
        has_many_scores = num_cells * longest > max_scores
        if index > first and (has_much_padding or has_many_scores):
            blocks.append((first, index))
            first, num_tokens, longest = index, 0, length
        num_tokens += length
    return [*blocks, (first, len(lengths))]


@lru_cache(maxsize=256)
def cut_by_length(lengths: tuple[int, ...], max_scores: float = math.inf) -> list[tuple[int, int]]:
    """Divide sequences into blocks of one padded length, as ranges `(first, end)` of their indices.

    So the padded length of a sequence depends only on its own length, not on its neighbours: sums
    over another number of keys may be rounded differently. There are few blocks if the longest
    sequences come first. A block's scores stay within `max_scores`, unless it holds a single
    sequence.

    >>> cut_by_length((128, 128, 120, 40, 7))
    [(0, 3), (3, 4), (4, 5)]
    """
    blocks = []
    first = longest = 0  # of the block to which the next sequence may belong
    for index, length in enumerate(lengths):
        has_other_length = padded_length(length) != padded_length(longest)
        longest = max(longest, length)
        has_many_scores = (index + 1 - first) * longest**2 > max_scores
        if index > first and (has_other_length or has_many_scores):
            blocks.append((first, index))
            first, longest = index, length
    return [*blocks, (first, len(lengths))]


def cut_both(
    queries: Sequence[tuple[int, int]], keys: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Divide sequences wherever one of two divisions does, such as those by queries and by keys.

    A block has queries * keys scores for each sequence. If queries² and keys² are within a limit,
    queries * keys is, too.

    >>> cut_both([(0, 3), (3, 5)], [(0, 2), (2, 5)])
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = sorted({end for _, end in (*queries, *keys)})
    return list(pairwise([0, *ends]))


def padded_length(length: int) -> int:
    """Return the length of a block on a CPU whose longest sequence has `length` tokens.

    There are 8 lengths from one power of two to the next, and below 256 the multiples of 16.
    """
    return rounded_up(length, steps=8)
