"""Words of running text, and text made of given words.

Words are cut as in corpora for token classification: punctuation stands alone, except inside a word
(`U.S.`, `1,000`, `e-mail`, `a@b.org`); English endings (`'s`, `n't`) are words; so is each Chinese
character. Nothing but white space is left out. Tokenizers such as `wordpiece.py` cut words into
tokens.
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

FULL_WIDTH = "\u3000-\u303f\uff00-\uffef"
PICTURES = "\u2600-\u27bf\U0001f000-\U0001faff"
PICTURE_PARTS = "\u200d\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"


@cache
def _pattern(rule: WordRule) -> re.Pattern[str]:
    space = plain_spaces()
    if rule == "spaces":
        return re.compile(f"[^{space}]+")
    if rule == "characters":
        return re.compile(f"[{PICTURES}][{PICTURES}{PICTURE_PARTS}]*|[^{space}]")
    letter = f"[^{space}{character_class('PUNCTUATION', 'CHINESE')}{PICTURES}]"
    clitic = f"(?i:s|m|d|ll|re|ve)(?!{letter})"
    ending = f"(?:['’]{clitic}|(?i:n['’]t)(?!{letter}))"
    stem = f"(?:(?!{ending}){letter})+"
    joint = f"(?:://|[-.,:/@&_]|['’](?!{clitic}))"
    abbreviation = rf"(?:{letter}\.){{2,}}(?!{letter})"
    return re.compile(
        rf"{abbreviation}|{ending}|{stem}(?:{joint}{stem})*|{letter}+|\.{{2,}}|-{{2,}}"
        rf"|[{PICTURES}][{PICTURES}{PICTURE_PARTS}]*|[^{space}]"
    )


def find_words(text: str, rule: WordRule = "words") -> list[Offsets]:
    """Find the words of a text and return their offsets in order.

    >>> text = "The U.S. didn't pay 1,000."
    >>> [text[start:end] for start, end in find_words(text)]
    ['The', 'U.S.', 'did', "n't", 'pay', '1,000', '.']
    """
    return [match.span() for match in _pattern(rule).finditer(text)]


@cache
def _touching() -> re.Pattern[str]:
    return re.compile(f"[{character_class('CHINESE')}{FULL_WIDTH}]")


def join_words(words: Sequence[str]) -> tuple[str, list[Offsets]]:
    """Join words to a text, and return it with each word's offsets in it.

    Chinese and full-width characters have no spaces beside them.

    >>> join_words(["Li", "spoke"]), join_words(["中", "国"])
    (('Li spoke', [(0, 2), (3, 8)]), ('中国', [(0, 1), (1, 2)]))
    """
    touching = _touching().match
    parts: list[str] = []
    offsets: list[Offsets] = []
    length = 0
    before = ""
    for word in words:
        if before and word and not (touching(before[-1]) or touching(word[0])):
            parts.append(" ")
            length += 1
        parts.append(word)
        offsets.append((length, length + len(word)))
        length += len(word)
        before = word
    return "".join(parts), offsets
