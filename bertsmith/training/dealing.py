"""What was dealt out in turn to several members or ranks, put into its order again."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def in_order(dealt: Sequence[Sequence[T]]) -> list[T]:
    """Return the items in order: item `i` is item `i // n` of hand `i % n`, of `n` hands."""
    number = len(dealt)
    return [dealt[i % number][i // number] for i in range(sum(map(len, dealt)))]
