"""Restore the order of items that were dealt in turn to several members or ranks."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def in_order(dealt: Sequence[Sequence[T]]) -> list[T]:
    """Return the items in order; of `n` receivers, receiver `i % n` has item `i` at `i // n`."""
    number = len(dealt)
    return [dealt[i % number][i // number] for i in range(sum(map(len, dealt)))]
