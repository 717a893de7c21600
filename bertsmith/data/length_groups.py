"""Divide sequences into groups by their lengths: of similar length, or of equal work."""

from collections.abc import Sequence

import numpy as np


def group_by_length(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Divide sequences into groups of at most `max_tokens`, similar lengths together.

    The groups are indices into `lengths`, longest first. A sequence longer than `max_tokens` has a
    group of its own.

    >>> group_by_length([5, 4, 3, 3, 3], max_tokens=12)
    [[0, 1, 2], [3, 4]]
    """
    groups: list[list[int]] = []
    tokens_left = 0
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        if not groups or lengths[index] > tokens_left:
            groups.append([])
            tokens_left = max_tokens
        groups[-1].append(index)
        tokens_left -= lengths[index]
    return groups


def deal_by_length(lengths: Sequence[int], num_parts: int) -> list[list[int]]:
    """Divide sequences into parts of about equal token counts, each with long and short ones.

    The parts are indices into `lengths`, longest first. Each sequence goes to the part with the
    fewest tokens so far; with fewer sequences than parts, some parts stay empty.

    >>> deal_by_length([5, 4, 3, 3, 3], num_parts=2)
    [[0, 3], [1, 2, 4]]
    """
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    sizes = [0] * num_parts
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        emptiest = sizes.index(min(sizes))
        parts[emptiest].append(index)
        sizes[emptiest] += lengths[index]
    return parts


def divide_by_length(lengths: Sequence[int], num_groups: int) -> list[list[int]]:
    """Divide sequences into groups of similar length and about equal token counts.

    The groups are indices into `lengths`, longest first. If no sequence is longer than the mean
    token count of a group, there are `num_groups` groups, and each count differs from the mean by
    the longest sequence at most. Otherwise there may be fewer groups.

    >>> divide_by_length([5, 4, 3, 3, 3], num_groups=2)
    [[0, 1], [2, 3, 4]]
    """
    if not lengths:
        return []
    longest_first = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    sorted_lengths = np.asarray(lengths, dtype=np.int64)[longest_first]
    # The place of each sequence's middle among all tokens, one after another, decides its group. It
    # is doubled, to stay an integer.
    middles = 2 * sorted_lengths.cumsum() - sorted_lengths
    group_of = middles * num_groups // (2 * sorted_lengths.sum())
    ends = np.flatnonzero(np.diff(group_of)) + 1
    return [group.tolist() for group in np.split(longest_first, ends)]
