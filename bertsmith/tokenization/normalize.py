"""BERT's text normalization, and the splitting into words that follows it.

The steps (Devlin et al. 2018, released code) are:

1. Remove controls, and make white space plain spaces.
2. Put spaces around Chinese characters.
3. Decompose characters and drop accents.
4. Lowercase.
5. Split at spaces, with each punctuation character a word.

The first four look at one character alone, so one `str.translate` does them. The exception is the
canonical reordering of marks, which is visible only around the few marks that are not dropped; text
with such a mark takes a slower path. Characters have the classes of `unicode_tables`, whatever the
running Python's Unicode version.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby

from bertsmith.tokenization import unicode_tables

SURROGATE_CODES = range(0xD800, 0xE000)
HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
# Planes 0 to 2 hold nearly all text; a translation table caches their characters only.
REMEMBERED_CODES = 0x30000


class _CodeRanges:
    """Set of characters, stored as sorted ranges of code points.

    >>> "b" in _CodeRanges("61-63 7a"), "y" in _CodeRanges("61-63 7a")
    (True, False)
    """

    def __init__(self, table: str) -> None:
        ends = [entry.partition("-") for entry in table.split()]
        self.ranges = [(int(first, 16), int(last or first, 16)) for first, _, last in ends]
        self._firsts = [first for first, _ in self.ranges]

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        index = bisect_right(self._firsts, code) - 1
        return index >= 0 and code <= self.ranges[index][1]

    def __iter__(self) -> Iterator[str]:
        return (chr(code) for first, last in self.ranges for code in range(first, last + 1))


@cache
def code_ranges(name: str) -> _CodeRanges:
    """Return the table of that name in `unicode_tables`, read once."""
    return _CodeRanges(getattr(unicode_tables, name))


@cache
def character_class(*names: str, highest: int = 0x10FFFF) -> str:
    """Build the inside of a regular expression's character class from `unicode_tables`.

    Characters above `highest` are left out.
    """
    return "".join(
        f"{re.escape(chr(first))}-{re.escape(chr(min(last, highest)))}"
        for name in names
        for first, last in code_ranges(name).ranges
        if first <= highest
    )


@cache
def plain_spaces() -> str:
    """Build the inside of a character class of all characters that cleaning makes plain spaces."""
    return "".join(re.escape(c) for c in code_ranges("WHITESPACE") if clean_character(c) == " ")


@cache
def lowercase_letters() -> dict[str, str]:
    """Map each upper-case character to its lower case."""
    letters = {"\u0130": "i\u0307"}  # the only character that becomes two
    # The table has entries such as "41-5a/1+20": first, last, stride, and shift to the lower case.
    entries = re.findall(r"(\w+)-(\w+)/(\d)([+-]\w+)", unicode_tables.LOWERCASE)
    for first, last, stride, shift in entries:
        for code in range(int(first, 16), int(last, 16) + 1, int(stride)):
            letters[chr(code)] = chr(code + int(shift, 16))
    return letters


def clean_character(char: str) -> str:
    """Remove controls and lone surrogates; make white space a plain space."""
    if char in code_ranges("REMOVED") or ord(char) in SURROGATE_CODES:
        return ""
    return " " if char in code_ranges("WHITESPACE") else char


def _decompose(char: str) -> str:
    """Return the canonical decomposition (NFD) of one character."""
    return unicodedata.normalize("NFD", char) if char in code_ranges("DECOMPOSED") else char


def decompose_compatibly(char: str) -> str:
    """Return the compatibility decomposition (NFKD) of one character."""
    return unicodedata.normalize("NFKD", char) if char in code_ranges("COMPATIBLE") else char


def combining_class(char: str) -> int:
    """Return the combining class of a reorderable mark, else 0."""
    return unicodedata.combining(char) if char in code_ranges("REORDERED") else 0


@cache
def kept_marks() -> frozenset[str]:
    """Collect the reorderable marks that stripping accents keeps.

    Characters whose decomposition contains such a mark are collected, too.
    """
    marks = {char for char in code_ranges("REORDERED") if char not in code_ranges("NONSPACING")}
    composed = (c for c in code_ranges("DECOMPOSED") if ord(c) not in HANGUL_SYLLABLES)
    return frozenset(marks | {char for char in composed if not marks.isdisjoint(_decompose(char))})


class _TranslationTable(dict[int, str]):
    """Table for `str.translate` that is filled as characters are met.

    `image` gives what a character becomes: none, one or several characters.
    """

    def __init__(self, image: Callable[[str], str]) -> None:
        super().__init__()
        self._image = image

    def __missing__(self, code: int) -> str:
        image = self._image(chr(code))
        if code < REMEMBERED_CODES:
            self[code] = image
        return image


@cache
def _punctuation_map() -> _TranslationTable:
    punctuation = code_ranges("PUNCTUATION")
    return _TranslationTable(lambda char: f" {char} " if char in punctuation else char)


def _split_words(normalized: str) -> list[str]:
    """Split normalized text at spaces, with punctuation characters alone.

    >>> _split_words("it's  so")
    ['it', "'", 's', 'so']
    """
    return normalized.translate(_punctuation_map()).split()


def locate_words(normalized: str) -> Iterator[tuple[str, int]]:
    """Yield the words of normalized text, each with the index of its first character."""
    end = 0
    for word in _split_words(normalized):
        start = normalized.index(word, end)  # only spaces are between words
        end = start + len(word)
        yield word, start


@cache
def unit_pattern(tokenize_chinese_chars: bool) -> re.Pattern[str]:
    """Compile a pattern that cuts raw text, without gaps, into independent units.

    Normalizing and splitting units one by one gives the words of the whole text, since each cut is
    beside a character across which marks are not reordered. There is no cut beside characters above
    U+FFFF: a pattern is much faster without them, and a larger unit has the same words.
    """
    names = ("PUNCTUATION", "CHINESE") if tokenize_chinese_chars else ("PUNCTUATION",)
    alone, spaces = character_class(*names, highest=0xFFFF), plain_spaces()
    return re.compile(f"[^{alone}{spaces}]+|[{alone}]|[{spaces}]+")


@dataclass(frozen=True)
class Normalizer:
    """BERT's rules for cleaning, case and accents.

    If `strip_accents` is None, accents are dropped if and only if text is lower-cased.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True

    def normalize(self, text: str) -> str:
        """Normalize raw text.

        >>> Normalizer().normalize("Café\\tNoël")
        'cafe noel'
        """
        if self._sorts_marks(text):
            return self._align_sorted(text)[0]
        return text.translate(self._map)

    def words(self, text: str) -> list[str]:
        """Split raw text into normalized words."""
        return _split_words(self.normalize(text))

    def align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also return the index in `text` of each character's origin.

        If marks were reordered, a mark's origin is the index of the mark whose position it took, as
        in the `tokenizers` library.
        """
        if self._sorts_marks(text):
            return self._align_sorted(text)
        images = [self._map[ord(char)] for char in text]
        origins = [origin for origin, image in enumerate(images) for _ in image]
        return "".join(images), origins

    @property
    def strips_accents(self) -> bool:
        """Whether accents are dropped, with the default resolved."""
        return self.lowercase if self.strip_accents is None else self.strip_accents

    @cached_property
    def _map(self) -> _TranslationTable:
        return _TranslationTable(self._normalize_char)

    def _normalize_char(self, char: str) -> str:
        """Normalize one character, to none, one or several."""
        spaced = self._space_char(char)
        if self.strips_accents:
            spaced = "".join(map(_decompose, spaced))
        return "".join(map(self._strip_and_lower, spaced))

    def _space_char(self, char: str) -> str:
        """Clean a character, or put spaces around a Chinese one."""
        if self.tokenize_chinese_chars and char in code_ranges("CHINESE"):
            return f" {char} "
        return clean_character(char)

    def _strip_and_lower(self, char: str) -> str:
        """Drop a decomposed character that is an accent; lower the case of others."""
        if self.strips_accents and char in code_ranges("NONSPACING"):
            return ""
        return lowercase_letters().get(char, char) if self.lowercase else char

    def _sorts_marks(self, text: str) -> bool:
        """Return whether the order of marks in a text may change visibly (`kept_marks`)."""
        return self.strips_accents and not text.isascii() and not kept_marks().isdisjoint(text)

    def _align_sorted(self, text: str) -> tuple[str, list[int]]:
        """Align text whose marks may have to be reordered."""
        spaced: list[str] = []
        spaced_origins: list[int] = []
        for index, char in enumerate(text):
            for part in self._space_char(char):
                spaced.append(part)
                spaced_origins.append(index)
        images: list[str] = []
        origins: list[int] = []
        remaining_origins = iter(spaced_origins)
        origin = 0
        # All parts of a decomposed character have its origin.
        for part, is_first in decompose_sorted(spaced, _decompose):
            if is_first:
                origin = next(remaining_origins)
            image = self._strip_and_lower(part)
            images.append(image)
            origins += [origin] * len(image)
        return "".join(images), origins


def decompose_sorted(
    chars: Iterable[str], decompose: Callable[[str], str]
) -> Iterator[tuple[str, bool]]:
    """Yield the parts of decomposed characters, and whether each was the first of its character.

    Each run of marks is sorted stably by combining class (Unicode Standard, 3.11).
    """
    parts = (
        (combining_class(part), part, number == 0)
        for char in chars
        for number, part in enumerate(decompose(char))
    )
    for is_mark, run in groupby(parts, key=lambda part: part[0] > 0):
        for _, part, is_first in sorted(run, key=lambda part: part[0] if is_mark else 0):
            yield part, is_first
