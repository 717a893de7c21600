"""Recognize labels that nearly follow a scheme, such as `B_PER`, `b-per`, `PER-B` or `BPER`.

A scheme such as IOB2 marks spans of words by a letter in each label (`B-PER`, `I-PER`). Without
this check the labels above would be taken for plain ones, which describe single words, and words
would be scored instead of entities.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import NamedTuple

LETTERS = "[BIESMLU]"
"""Pattern of the letters of the schemes IOB2, BIOES, BMES and BILOU, except for O."""
MARKS = r"[-‐‒–—−_:./|+~]"
"""Characters that are used in place of a hyphen, after NFKC has replaced full-width forms."""
WORDS = {
    **dict.fromkeys(("begin", "beginning", "start", "first"), "B"),
    **dict.fromkeys(("inside", "in", "inner", "middle", "mid", "intermediate", "continue"), "I"),
    **dict.fromkeys(("end", "ending", "last"), "E"),
    **dict.fromkeys(("single", "singleton", "unit", "unique"), "S"),
}
"""Words that stand for the letters of schemes."""
# Patterns that find in a label the letter of its scheme, or a word for this letter, and the type.
LETTER_BEFORE = rf"(?P<letter>{LETTERS})\s*(?:{MARKS}|\s)\s*(?P<type>.+)"
LETTER_BEHIND = rf"(?P<type>.+?)\s*{MARKS}\s*(?P<letter>{LETTERS})"
TYPE_IN_BRACKETS = rf"(?P<letter>{LETTERS})\s*[(\[{{<]\s*(?P<type>.+?)\s*[)\]}}>]"
LETTER_IN_BRACKETS = rf"(?P<type>.+?)\s*[(\[{{<]\s*(?P<letter>{LETTERS})\s*[)\]}}>]"
WORD_BEFORE = rf"(?P<letter>{'|'.join(WORDS)})\s*(?:{MARKS}|\s)\s*(?P<type>.+)"
WORD_BEHIND = rf"(?P<type>.+?)\s*(?:{MARKS}|\s)\s*(?P<letter>{'|'.join(WORDS)})"
FORMS = [
    re.compile(form, re.DOTALL | re.IGNORECASE)
    for form in (LETTER_BEFORE, LETTER_BEHIND, TYPE_IN_BRACKETS, LETTER_IN_BRACKETS)
]
"""Forms of labels that mark spans: `B_PER`, `PER-B`, `B(PER)` and `PER(B)`."""
LETTER_GLUED = re.compile(rf"(?P<letter>{LETTERS})(?P<type>[A-Z]\w*)")
"""Form of labels such as `BPER`."""
AMBIGUOUS_FORMS = [
    LETTER_GLUED,
    *(re.compile(form, re.DOTALL | re.IGNORECASE) for form in (WORD_BEFORE, WORD_BEHIND)),
]
"""Forms that plain labels often have, too, such as `BAD`, `in stock` or `week end`."""
LETTERS_ALONE = (set("bies"), set("bmes"), set("bilu"))
"""Letters of the schemes BIOES, BMES and BILOU, in lower case, which may stand without a type."""
OUTSIDE_NAMES = {"o", "0", "_", "other", "none", "null", "out", "outside"}
"""Usual labels, in lower case, of words outside of spans."""
FILLERS = {"[cls]", "[sep]", "[pad]", "cls", "sep", "pad", "<s>", "</s>", "<pad>", "x", "-100"}
"""Labels, in lower case, that programs give to tokens that are no words."""


class NearLabel(NamedTuple):
    """A label of the data that nearly follows a scheme."""

    label: str
    written: str
    """The label in the scheme's own form."""


class _Reading(NamedTuple):
    """A label as one of the forms reads it: a letter of a scheme, and a type, empty without one."""

    letter: str
    type: str


def find_near_label(labels: Collection[str]) -> NearLabel | None:
    """Find a label that nearly follows a scheme; None if the labels seem to be plain.

    All labels, except fillers and those for words outside of spans, must have the same form, so
    that `Hepatitis-B` beside `Influenza` stays plain. Besides, there must be one of two signs:

    - Some type has both B and a letter for later words (`B_PER` and `I_PER`).
    - Words outside of spans have a label (`O`), the form is not ambiguous, and some label has the
      letter B or I (`B_PER`).

    >>> find_near_label(["O", "B_PER", "I_PER"])
    NearLabel(label='B_PER', written='B-PER')
    """
    outside = [label for label in labels if _usual(label).casefold() in OUTSIDE_NAMES]
    named = [label for label in labels if label not in outside and not is_filler(label)]
    if not named:
        return None
    for readings, is_ambiguous in _readings(list(map(_usual, named))):
        has_sign = _some_type_continues(readings) or (
            outside and not is_ambiguous and _has_b_or_i(readings)
        )
        if not has_sign:
            continue
        rewritten = [f"{letter}-{type_}" if type_ else letter for letter, type_ in readings]
        pairs = [*zip(named, rewritten, strict=True), *((label, "O") for label in outside)]
        return next((NearLabel(*pair) for pair in pairs if pair[0] != pair[1]), None)
    return None


def is_filler(label: str) -> bool:
    """Return whether a label is one that marks tokens which are no words, such as [CLS]."""
    return _usual(label).casefold() in FILLERS


def _usual(label: str) -> str:
    """Return a label without blanks at its ends, and with usual letters for full-width ones."""
    return unicodedata.normalize("NFKC", label).strip()


def _readings(named: Collection[str]) -> Iterator[tuple[list[_Reading], bool]]:
    """Yield, for each form that all labels have, their letters and types.

    The second value is whether the form is ambiguous, because plain labels often have it, too.
    """
    lowered = list(map(str.lower, named))
    if any(set(lowered) <= letters for letters in LETTERS_ALONE):
        yield [_Reading(label.upper(), "") for label in lowered], False
    if set(lowered) <= WORDS.keys() and {"B", "I"} <= {WORDS[label] for label in lowered}:
        yield [_Reading(WORDS[label], "") for label in lowered], False
    # `LEVEL_B` has the form of `PER-B` and, as it begins with L, that of `BPER`. If all labels have
    # both forms, they are probably plain.
    is_glued = all(map(LETTER_GLUED.fullmatch, named))
    for form in (*FORMS, *AMBIGUOUS_FORMS):
        matches = [match for label in named if (match := form.fullmatch(label))]
        if len(matches) == len(named):
            readings = [
                _Reading(WORDS.get(match["letter"].lower(), match["letter"].upper()), match["type"])
                for match in matches
            ]
            yield readings, is_glued or form in AMBIGUOUS_FORMS


def _some_type_continues(readings: Collection[_Reading]) -> bool:
    """Return whether a type has both the letter B and a letter for later words.

    With a type, only I and M count as such letters, because plain labels may be `Vitamin-B` and
    `Vitamin-E`.
    """
    begun = {type_ for letter, type_ in readings if letter == "B"}
    return any(
        letter in ("IM" if type_ else "IMEL") and type_ in begun for letter, type_ in readings
    )


def _has_b_or_i(readings: Collection[_Reading]) -> bool:
    return any(letter in "BI" for letter, _ in readings)
