"""The protocol of an executor, which works in other processes or on a cluster."""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Works on many items in parallel, only a few of which are in memory at a time."""

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield `work(item)` for each item, in order; `work` and items are picklable."""
        ...
