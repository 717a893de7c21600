"""Grouping of neighbouring texts into lists of a minimum size, which are processed at once."""

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

TextT = TypeVar("TextT", bound=Sized)


def group_by_size(texts: Iterable[TextT], size: int) -> Iterator[list[TextT]]:
    """Group neighbouring texts into lists of at least `size` characters or bytes.

    Order is kept; the last list may be smaller.

    >>> list(group_by_size(["ab", "c", "defg", "h"], size=3))
    [['ab', 'c'], ['defg'], ['h']]
    """
    group: list[TextT] = []
    total = 0
    for text in texts:
        group.append(text)
        total += len(text)
        if total >= size:
            yield group
            group = []
            total = 0
    if group:
        yield group
