"""The protocol of what does work elsewhere: processes of this machine, or a cluster."""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Worker of many items, of which it holds a few at a time."""

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield `work(item)` for each item, in order; `work` and items are picklable."""
        ...
