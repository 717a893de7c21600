"""A cache of the results of a function that takes a string, with a limit on its memory."""

from collections.abc import Callable
from typing import TypeVar

MAX_KEY_LENGTH = 24
"""Longer strings recur too seldom to be worth their memory."""
CACHE_SIZE = 1 << 17
"""Entries of one generation, which take about 30 MB. 10 MB of English text have some 90,000
distinct words."""

Value = TypeVar("Value")


class StringCache(dict[str, Value]):
    """A cache of the results of `compute`, a function that takes a string.

    When the cache is full, its entries become the older generation, which replaces the previous
    older one. A string that is found in the older generation is copied to the new one. So at most
    two generations are in memory, and the values of common strings stay.
    """

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute
        self._older: dict[str, Value] = {}

    def __missing__(self, key: str) -> Value:
        older = self._older  # another thread may replace it meanwhile
        value = older[key] if key in older else self._compute(key)
        if len(key) <= MAX_KEY_LENGTH:
            if len(self) >= CACHE_SIZE:
                self._older = dict(self)
                self.clear()
            self[key] = value
        return value
