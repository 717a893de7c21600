"""Put items back into order that were dealt in turn to several shares or ranks."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def interleave(dealt: Sequence[Sequence[T]]) -> list[T]:
    """Take an item from each sequence in turn, until all are taken.

    >>> interleave([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    number = len(dealt)
    return [dealt[i % number][i // number] for i in range(sum(map(len, dealt)))]
