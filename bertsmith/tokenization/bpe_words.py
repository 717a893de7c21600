"""GPT-2's division of text into words, in which a space belongs to the word after it."""

import re
from functools import cache

from bertsmith.tokenization.normalize import character_class
from bertsmith.tokenization.surrogates import without_surrogates

ABOVE_FFFF = re.compile("[\U00010000-\U0010ffff]")


@cache
def word_pattern(highest: int) -> re.Pattern[str]:
    """Compile GPT-2's pattern for text without characters above `highest`.

    A pattern with fewer characters is faster. GPT-2 writes it as

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

    Python's `re` has no `\\p`, so the characters are listed here.
    """
    letter, number, space = (
        character_class(name, highest=highest) for name in ("LETTER", "NUMBER", "WHITESPACE")
    )
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letter}]+| ?[{number}]+| ?[^{space}{letter}{number}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )


def split_pattern(text: str) -> list[str]:
    """Split text by GPT-2's pattern; the words, joined, are the text again.

    >>> split_pattern("It's 2 o'clock,  now")
    ['It', "'s", ' 2', ' o', "'", 'clock', ',', ' ', ' now']
    """
    if text.isascii():
        return word_pattern(0x7F).findall(text)
    return word_pattern(0x10FFFF if ABOVE_FFFF.search(text) else 0xFFFF).findall(text)


def clean_words(text: str) -> list[str]:
    """Split any text into the words of GPT-2's pattern, without lone surrogates."""
    return split_pattern(without_surrogates(text))
