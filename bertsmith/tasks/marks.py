"""Texts with marked parts, for people to read."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from bertsmith.pages.charts import COLORS, Color

RIGHT: Color = 0
WRONG: Color = 1


class MarkedPart(NamedTuple):
    """A part of a text; without a color it is not marked."""

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
    """A prediction whose decision has a place in the text."""

    def parts(self) -> list[MarkedPart]:
        """Return the text with the decision marked."""
        ...


def color_of(name: str, names: Sequence[str]) -> Color:
    """Return the color of one of several types."""
    return COLORS[names.index(name) % len(COLORS)] if name in names else COLORS[0]


def mark_spans(text: str, spans: Iterable[Mark], around: int | None = None) -> list[MarkedPart]:
    """Cut a text into marked and other parts.

    Of spans that overlap, the first given is whole, and others of its label are left out. With
    `around`, at most so many characters of the other parts are kept beside each span.
    """
    taken: list[Mark] = []
    for span in spans:
        left = span
        for other in taken:
            if other.label == span.label and other.start < span.end and span.start < other.end:
                left = left._replace(end=left.start)
            if other.start <= left.start < other.end:
                left = left._replace(start=other.end)
            elif left.start < other.start < left.end:
                left = left._replace(end=other.start)
        if left.start < left.end:
            taken.append(left)
    parts: list[MarkedPart] = []
    reached, most = 0, len(text) if around is None else around
    for span in sorted(taken):
        before = most if parts else 0
        parts.append(MarkedPart(_shorten(text[reached : span.start], before, most)))
        parts.append(MarkedPart(text[span.start : span.end], span.label, span.color))
        reached = span.end
    parts.append(MarkedPart(_shorten(text[reached:], most if taken else 2 * most, 0)))
    return [part for part in parts if part.text]


def _shorten(text: str, first: int, last: int) -> str:
    """Keep the first and the last characters of a text that has more."""
    if len(text) <= first + last:
        return text
    return f"{text[:first]}…{text[len(text) - last :]}"
