"""Search of text for added tokens such as [MASK], before the rest of the text is tokenized.

These tokens have the flags of the `tokenizers` library. Of overlapping matches, this library and
bertsmith take the leftmost one, and of several matches that begin at one place the longest.
A match that `single_word` rejects is skipped whole. White space that `lstrip` and `rstrip` take
belongs to the token.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bertsmith.tokenization.normalize import code_ranges


@dataclass(frozen=True, slots=True)
class AddedToken:
    """Token that is searched for in text, with the flags of `tokenizer.json`."""

    content: str
    single_word: bool = False
    """Matches only where no word character touches it."""
    lstrip: bool = False
    """Takes the white space before it."""
    rstrip: bool = False
    """Takes the white space after it."""
    normalized: bool = False
    """Is searched for, in its own normalized form, in normalized text; otherwise in raw text."""
    special: bool = True
    """Is omitted by `decode(skip_special_tokens=True)`."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Part of a text, `start` to `stop`: an added token, or ordinary text, whose `id` is None."""

    start: int
    stop: int
    id: int | None


class TokenFinder:
    """Splitter of text at added tokens.

    Args:
        tokens: token ids and tokens; of two with the same searched form the first is found.
        to_searched_form: maps a token's content to the form in which text is searched for it, such
            as its normalized form; a token whose form is empty is never found.
    """

    def __init__(
        self, tokens: Sequence[tuple[int, AddedToken]], to_searched_form: Callable[[str], str] = str
    ) -> None:
        self._tokens: dict[str, tuple[int, AddedToken]] = {}
        for id_, token in tokens:
            if searched_form := to_searched_form(token.content):
                self._tokens.setdefault(searched_form, (id_, token))
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._first_characters = frozenset(searched_form[0] for searched_form in self._tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def may_be_in(self, text: str) -> bool:
        """Return whether a token may be in the text, by first characters; False is certain."""
        return any(map(text.__contains__, self._first_characters))

    def split(self, text: str) -> Iterator[TextPart]:
        """Split `text` into added tokens and ordinary text, in order, none empty."""
        reached = 0
        if self.may_be_in(text):
            for match in self._pattern.finditer(text):
                id_, token = self._tokens[match.group()]
                start, stop = match.span()
                if token.single_word and _touches_word(text, start, stop):
                    continue
                if token.lstrip:
                    start = max(_space_before(text, start), reached)
                if token.rstrip:
                    stop = _space_after(text, stop)
                if reached < start:
                    yield TextPart(reached, start, None)
                if start < stop:  # false where an earlier token took all of its white space
                    yield TextPart(start, stop, id_)
                reached = stop
        if reached < len(text):
            yield TextPart(reached, len(text), None)


def _touches_word(text: str, start: int, stop: int) -> bool:
    word = code_ranges("WORD")
    return (start > 0 and text[start - 1] in word) or (stop < len(text) and text[stop] in word)


def _space_before(text: str, start: int) -> int:
    whitespace = code_ranges("WHITESPACE")
    while start > 0 and text[start - 1] in whitespace:
        start -= 1
    return start


def _space_after(text: str, stop: int) -> int:
    whitespace = code_ranges("WHITESPACE")
    while stop < len(text) and text[stop] in whitespace:
        stop += 1
    return stop
