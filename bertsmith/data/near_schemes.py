"""Recognize labels that nearly follow a scheme, such as `B_PER`, `b-per`, `PER-B` or `BPER`.

They would be taken for plain labels, and scored word by word, where entities are meant.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

LETTER_BEFORE = re.compile(r"([BIESMLU])\s*[-–—_:./|+~ ]\s*(.+)", re.DOTALL | re.IGNORECASE)
LETTER_BEHIND = re.compile(r"(.+?)\s*[-–—_:./|+~]\s*([BIESMLU])", re.DOTALL | re.IGNORECASE)
LETTER_GLUED = re.compile(r"([BIESMLU])([A-Z]\w*)")
LETTERS_ALONE = ({"b", "i"}, {"b", "i", "e", "s"}, {"b", "m", "e", "s"})
OUTSIDE_NAMES = {"o", "0", "_", "other", "none", "null", "out", "outside"}
"""Names in lower case of the label of words outside of all spans."""


class NearLabel(NamedTuple):
    """A label, and how a scheme writes it."""

    label: str
    written: str


class _Reading(NamedTuple):
    letter: str
    type: str


def find_near_label(labels: Collection[str]) -> NearLabel | None:
    """Find a label that nearly follows a scheme; None if the labels seem to be plain.

    All of them must look alike, so that `Hepatitis-B` beside `Influenza` stays a plain label.

    >>> find_near_label(["O", "B_PER", "I_PER"])
    NearLabel(label='B_PER', written='B-PER')
    """
    named = [label for label in labels if label.casefold() not in OUTSIDE_NAMES]
    has_outside = len(named) < len(labels)
    if not named:
        return None
    for readings in _readings(named):
        is_glued = all(map(LETTER_GLUED.fullmatch, named))
        if not (_share_types(readings) or (has_outside and not is_glued and _begin(readings))):
            continue
        proper = [f"{letter}-{type_}" if type_ else letter for letter, type_ in readings]
        rest = [label for label in labels if label not in named]
        pairs = [*zip(named, proper, strict=True), *((label, "O") for label in rest)]
        return next((NearLabel(*pair) for pair in pairs if pair[0] != pair[1]), None)
    return None


def _readings(named: Collection[str]) -> Iterator[list[_Reading]]:
    """Yield each way to read all labels as letters and types."""
    if any(set(map(str.lower, named)) <= letters for letters in LETTERS_ALONE):
        yield [_Reading(label.upper(), "") for label in named]
    for form, letter, type_ in ((LETTER_BEFORE, 1, 2), (LETTER_BEHIND, 2, 1), (LETTER_GLUED, 1, 2)):
        matches = [match for label in named if (match := form.fullmatch(label.strip()))]
        if len(matches) == len(named):
            yield [_Reading(match[letter].upper(), match[type_]) for match in matches]


def _share_types(readings: Collection[_Reading]) -> bool:
    """Return whether a type has letters for the beginning and for what follows.

    E alone is not enough, as in `Vitamin-B` and `Vitamin-E`, unless letters have no type.
    """
    begun = {type_ for letter, type_ in readings if letter == "B"}
    return any(
        letter in ("IM" if type_ else "IME") and type_ in begun for letter, type_ in readings
    )


def _begin(readings: Collection[_Reading]) -> bool:
    """Return whether some letter says that a span begins or goes on."""
    return any(letter in "BI" for letter, _ in readings)
