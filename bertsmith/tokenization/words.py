"""Division of text into words, and joining of words to a text.

Text is divided as in corpora for token classification: a punctuation mark is a word, except inside
another word (`U.S.`, `1,000`, `e-mail`, `a@b.org`). English endings (`'s`, `n't`) are words, and so
is each Chinese character. Only white space belongs to no word. Tokenizers such as `wordpiece.py`
divide words further, into tokens.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal

from bertsmith.tokenization.normalize import character_class, plain_spaces

WordRule = Literal["words", "spaces", "characters"]
"""Rule of cutting: `words` as in this module's description, white space, or characters."""

Offsets = tuple[int, int]
"""Of a word in its text: the offset of its first character, and of one past its last."""

# Ranges of characters, as they stand in a character class of a regular expression.
FULL_WIDTH = "\u3000-\u303f\uff00-\uffef"
"""Chinese and Japanese punctuation, and letters as wide as a Chinese character."""
PICTURES = "\u2600-\u27bf\U0001f000-\U0001faff"
"""Symbols and emoji."""
PICTURE_PARTS = "\u200d\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
"""Characters that change or join emoji, such as skin tones, and the tags of regional flags."""


@cache
def _word_pattern(rule: WordRule) -> re.Pattern[str]:
    """Compile a pattern that matches one word after another."""
    space = plain_spaces()
    emoji = f"[{PICTURES}][{PICTURES}{PICTURE_PARTS}]*"
    any_character = f"[^{space}]"
    if rule == "spaces":
        return re.compile(f"{any_character}+")
    if rule == "characters":
        return re.compile(f"{emoji}|{any_character}")
    letter = f"[^{space}{character_class('PUNCTUATION', 'CHINESE')}{PICTURES}]"
    clitic = f"(?i:s|m|d|ll|re|ve)(?!{letter})"  # without its apostrophe
    ending = f"(?:['’]{clitic}|(?i:n['’]t)(?!{letter}))"  # 's, n't
    stem = f"(?:(?!{ending}){letter})+"  # did of didn't
    joint = f"(?:://|[-.,:/@&_]|['’](?!{clitic}))"  # the hyphen of e-mail
    abbreviation = rf"(?:{letter}\.){{2,}}(?!{letter})"  # U.S.
    dots_or_dashes = r"\.{2,}|-{2,}"
    return re.compile(
        rf"{abbreviation}|{ending}|{stem}(?:{joint}{stem})*|{dots_or_dashes}"
        rf"|{emoji}|{any_character}"
    )


def find_words(text: str, rule: WordRule = "words") -> list[Offsets]:
    """Find the words of a text and return their offsets in order.

    >>> text = "The U.S. didn't pay 1,000."
    >>> [text[start:end] for start, end in find_words(text)]
    ['The', 'U.S.', 'did', "n't", 'pay', '1,000', '.']
    """
    return [match.span() for match in _word_pattern(rule).finditer(text)]


@cache
def _unspaced_character() -> re.Pattern[str]:
    """Compile a pattern that matches a character which has no spaces beside it."""
    return re.compile(f"[{character_class('CHINESE')}{FULL_WIDTH}]")


def join_words(words: Sequence[str]) -> tuple[str, list[Offsets]]:
    """Join words to a text, and return it with each word's offsets in it.

    Chinese and full-width characters have no spaces beside them.

    >>> join_words(["Li", "spoke"]), join_words(["中", "国"])
    (('Li spoke', [(0, 2), (3, 8)]), ('中国', [(0, 1), (1, 2)]))
    """
    is_unspaced = _unspaced_character().match
    parts: list[str] = []
    offsets: list[Offsets] = []
    length = 0
    before = ""  # the word before
    for word in words:
        if before and word and not (is_unspaced(before[-1]) or is_unspaced(word[0])):
            parts.append(" ")
            length += 1
        parts.append(word)
        offsets.append((length, length + len(word)))
        length += len(word)
        before = word
    return "".join(parts), offsets
