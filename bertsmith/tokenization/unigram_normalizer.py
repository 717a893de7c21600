"""Normalization of text for unigram tokenizers (ALBERT), and division into words that begin with ▁.

The steps are those that ALBERT's tokenizer.json lists. Each is a function that also tells from
which character of its input each character of its result comes, since `encode` returns offsets.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from bertsmith.tokenization.charsmap import CharacterMap
from bertsmith.tokenization.normalize import (
    character_class,
    code_ranges,
    decompose_compatibly,
    decompose_sorted,
    lowercase_letters,
)
from bertsmith.tokenization.surrogates import without_surrogates

SPACE = "▁"
Step = Literal["quotes", "decompose", "strip_accents", "lowercase", "charsmap"]
ALBERT_STEPS: tuple[Step, ...] = ("quotes", "decompose", "strip_accents", "lowercase", "charsmap")

Aligned = tuple[str, list[int]]
"""Text made from another text, and the index in that text of each character's origin."""

WORDS = re.compile(f"{SPACE}[^{SPACE}]*")


def replace_quotes(text: str) -> Aligned:
    """Replace `` and '' by a double quote."""
    parts = []
    origins = []
    end = 0
    # The `tokenizers` library replaces one kind, then the other; the result is the same.
    for match in re.finditer("``|''", text):
        parts += [text[end : match.start()], '"']
        origins += [*range(end, match.start()), match.end() - 1]
        end = match.end()
    return "".join([*parts, text[end:]]), [*origins, *range(end, len(text))]


def decompose_text(text: str) -> Aligned:
    """Apply the compatibility decomposition (NFKD), with marks in canonical order.

    If marks were reordered, a mark's origin is the index of the mark whose position it took, as in
    the `tokenizers` library.
    """
    if text.isascii():
        return text, list(range(len(text)))
    parts = []
    origins = []
    index = -1
    for part, is_first in decompose_sorted(text, decompose_compatibly):
        if is_first:
            index += 1
        parts.append(part)
        origins.append(max(index, 0))
    return "".join(parts), origins


def strip_accents(text: str) -> Aligned:
    """Remove marks of every kind."""
    if text.isascii():
        return text, list(range(len(text)))
    marks = code_ranges("MARK")
    origins = [index for index, char in enumerate(text) if char not in marks]
    return "".join(map(text.__getitem__, origins)), origins


def lowercase(text: str) -> Aligned:
    """Lower the case of a text; `İ` becomes two characters, which have the same origin."""
    letters = lowercase_letters()
    lowered = [letters.get(char, char) for char in text]
    return "".join(lowered), [index for index, chars in enumerate(lowered) for _ in chars]


class UnigramNormalizer:
    """Normalization of a text before it is cut into words.

    Args:
        steps: names of the steps, in order.
        charsmap: table of the step "charsmap"; if it is empty, the step does nothing.
    """

    def __init__(self, steps: Sequence[Step], charsmap: bytes) -> None:
        functions: dict[str, Callable[[str], Aligned]] = {
            "quotes": replace_quotes,
            "decompose": decompose_text,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        }
        if charsmap:
            functions["charsmap"] = CharacterMap(charsmap).align
        self._steps = [functions[step] for step in steps if step in functions]
        self._lowers = "lowercase" in steps
        self._is_plain = self._plain_pattern().fullmatch

    def _plain_pattern(self) -> re.Pattern[str]:
        """Compile a pattern that matches text which no step but lowercasing changes."""
        plain = [
            char
            for char in map(chr, range(0x21, 0x7F))
            if char not in "`'" and self._apply(char) == (char.lower() if self._lowers else char)
        ]
        never = "(?!)"
        return re.compile(f"[{re.escape(''.join(plain))}]+" if plain else never)

    def normalize(self, text: str) -> str:
        """Normalize a text.

        >>> UnigramNormalizer(ALBERT_STEPS, b"").normalize("``Café''")
        '"cafe"'
        """
        if self._is_plain(text):
            return text.lower() if self._lowers else text
        return self._apply(text)

    def _apply(self, text: str) -> str:
        for step in self._steps:
            text = step(text)[0]
        return text

    def align(self, text: str) -> Aligned:
        """Normalize text; also return the index in `text` of each character's origin."""
        origins = list(range(len(text)))
        for step in self._steps:
            text, step_origins = step(text)
            origins = [origins[index] for index in step_origins]
        return text, origins

    def words(self, text: str) -> list[str]:
        """Split text into normalized words, each with `▁` before it."""
        normalized = self.normalize(without_surrogates(text))
        return [word for run in not_white_space().findall(normalized) for word in split_marks(run)]


def split_marks(word: str) -> list[str]:
    """Split a word before each `▁`, adding one in front if missing.

    >>> split_marks("a▁b")
    ['▁a', '▁b']
    """
    return WORDS.findall(word if word.startswith(SPACE) else SPACE + word)


@cache
def not_white_space() -> re.Pattern[str]:
    """Compile a pattern that matches runs of text without white space."""
    return re.compile(f"[^{character_class('WHITESPACE')}]+")


@cache
def unsafe_cut() -> re.Pattern[str]:
    """Compile a pattern that matches a space which normalization may join with a neighbour.

    Such a space stands before a mark, or after a character that belongs to the one that follows it.
    """
    joining, prepended = character_class("JOINING", "REORDERED"), character_class("PREPENDED")
    return re.compile(f" (?:[{joining}]|(?<=[{prepended}] ))")
