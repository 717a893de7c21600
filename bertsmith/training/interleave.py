"""Put items back into order that were dealt in turn, as cards are, to several processes."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def interleave(dealt: Sequence[Sequence[T]]) -> list[T]:
    """Take an item from each sequence in turn, until all are taken.

    >>> interleave([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    num_sequences = len(dealt)
    num_items = sum(len(items) for items in dealt)
    return [dealt[i % num_sequences][i // num_sequences] for i in range(num_items)]
