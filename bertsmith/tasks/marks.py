"""Texts with marked parts, such as predicted entities, for people to read on pages."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol, runtime_checkable

from bertsmith.pages.colors import COLORS, Color

RIGHT: Color = 0
WRONG: Color = 1
"""Numbers of the colors, blue and orange, in which right and wrong answers are marked."""


class MarkedPart(NamedTuple):
    """A part of a text, which is marked if it has a color; `label` is then shown beside it."""

    text: str
    label: str = ""
    color: Color | None = None


class Mark(NamedTuple):
    """Characters of a text to mark, from `start` up to before `end`."""

    start: int
    end: int
    label: str
    color: Color


@runtime_checkable
class Marked(Protocol):
    """A prediction of spans in the text, which can be marked there."""

    def parts(self) -> list[MarkedPart]:
        """Return the text with the decision marked."""
        ...


@runtime_checkable
class Labelled(Protocol):
    """A prediction of one label or several for a text as a whole."""

    def label_parts(self) -> list[MarkedPart]:
        """Return the names of the labels, each in its color."""
        ...


def color_of(name: str, names: Sequence[str]) -> Color:
    """Return the color of `name` among `names`; the first color if it is none of them."""
    return COLORS[names.index(name) % len(COLORS)] if name in names else COLORS[0]


def mark_spans(text: str, spans: Iterable[Mark], around: int | None = None) -> list[MarkedPart]:
    """Cut a text into marked and other parts.

    Where spans overlap, the one that comes first in `spans` is marked whole. A later one is left
    out if it has the same label. Otherwise its first part that is still unmarked is marked.

    Args:
        around: number of characters to keep before and after each span; None keeps all.
    """
    taken: list[Mark] = []  # sorted by their start; they do not overlap
    for span in spans:
        # The marked spans that end after the start of this one and begin before its end.
        first = bisect_right(taken, span.start, key=attrgetter("end"))
        last = bisect_left(taken, span.end, key=attrgetter("start"))
        overlapping = taken[first:last]
        if any(other.label == span.label for other in overlapping):
            continue
        start, end = span.start, span.end
        for other in overlapping:
            if other.start <= start:  # the beginning is marked already
                start = other.end
            else:
                end = min(end, other.start)
        if start < end:
            insort(taken, span._replace(start=start, end=end))
    num_kept = len(text) if around is None else around
    if not taken:
        return [MarkedPart(_shorten(text, 2 * num_kept, 0))] if text else []
    parts: list[MarkedPart] = []
    end_of_last_span = 0
    for span in taken:
        text_between = text[end_of_last_span : span.start]
        # The text before the first span follows no span.
        num_kept_after_last_span = num_kept if parts else 0
        parts.append(MarkedPart(_shorten(text_between, num_kept_after_last_span, num_kept)))
        parts.append(MarkedPart(text[span.start : span.end], span.label, span.color))
        end_of_last_span = span.end
    parts.append(MarkedPart(_shorten(text[end_of_last_span:], num_kept, 0)))
    return [part for part in parts if part.text]


def _shorten(text: str, first: int, last: int) -> str:
    """Shorten a text to its first `first` and last `last` characters, if it has more."""
    if len(text) <= first + last:
        return text
    return f"{text[:first]}…{text[len(text) - last :]}"
