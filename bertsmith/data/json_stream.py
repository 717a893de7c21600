"""Stream a JSON file: the elements of its list, or the members of its one object.

A file of any size takes about the memory of its largest element; an element of more than
`MAX_VALUE` characters is refused. Half a surrogate pair, as of an emoji that was cut in two, is
read as U+FFFD.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertsmith.data.json_rows import (
    JSON,
    json_fault,
    json_problem,
    json_type,
    list_names,
    without_half_characters,
)
from bertsmith.data.text_files import iter_text, name_source
from bertsmith.errors import InputError, option
from bertsmith.system.json_text import TOO_DEEP

NOT_WHITE = re.compile(r"[^ \t\n\r]")
NOT_NUMERIC = re.compile(r"[^0-9.eE+-]")
MAX_VALUE = 1 << 26
"""Maximum characters of a value: after an unclosed quote, a whole large file would be one value."""
MAX_TOKEN_CHARACTERS = 16
"""Number of characters before the end of the text that is read so far. An error this near the end
may only mean that a word, number or escape goes on in the text that is not read yet; the longest of
these, an escaped emoji, has 12 characters."""


def iter_elements(path: Path, key: str) -> Iterator[Any]:
    """Yield the elements of the list under `key` in a file's object.

    Raises:
        InputError: the file cannot be read, is not JSON (with its line), or has no such list.
    """
    reader = _Reader(path)
    if reader.peek() != "{":
        raise InputError(f"{path}: an object with the key '{key}' is expected. Use another file.")
    keys: list[str] = []
    for name in reader.members():
        if name in keys:
            raise InputError(f"{path}: the key '{name}' appears twice. Remove one of them.")
        keys.append(name)
        if name != key:
            reader.value()  # parsed and dropped
            continue
        if reader.peek() != "[":
            raise InputError(
                f"{path}: '{key}' is {json_type(reader.value())}; a list is expected. Use "
                "another file."
            )
        yield from reader.elements()
    if reader.peek():
        raise reader.error("nothing more is expected", reader.at)
    if key not in keys:
        raise InputError(
            f"{path}: no key '{key}'. Keys found: {list_names(keys)}. Use another file."
        )


def holds_list(path: Path) -> bool:
    """Return whether a JSON file holds a list.

    Raises:
        InputError: the file cannot be read.
    """
    return _Reader(path).peek() == "["


def iter_list(path: Path) -> Iterator[Any]:
    """Yield the elements of a file's list.

    Raises:
        InputError: the file cannot be read, is not JSON (with its line), or holds no list.
    """
    reader = _Reader(path)
    if reader.peek() != "[":
        actual = "an object" if reader.peek() == "{" else json_type(reader.value())
        raise InputError(
            f"{reader.name}: found {actual}; a list of objects is expected, such as "
            '[{"text": "...", "label": "..."}]. With pandas: to_json(..., orient="records"). '
            "A file with an object on each line is a .jsonl: rename it, or pass "
            f"{option('format', 'jsonl')}."
        )
    yield from reader.elements()
    if reader.peek():
        raise reader.error("nothing more is expected", reader.at)


def iter_members(path: Path, expected: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a file's object.

    Args:
        expected: what the object is to hold, for messages.

    Raises:
        InputError: the file cannot be read, is not JSON (with its line), or holds no object.
    """
    reader = _Reader(path)
    if reader.peek() != "{":
        raise InputError(
            f"{path}: found {json_type(reader.value())}; an object is expected, {expected}. "
            "Use another file."
        )
    yield from ((name, reader.value()) for name in reader.members())
    if reader.peek():
        raise reader.error("nothing more is expected", reader.at)


class _Reader:
    """Incremental JSON parser.

    The buffer `text` is parsed up to the index `at`. It begins at `line` and `column` of the file,
    both from 1.
    """

    def __init__(self, path: Path) -> None:
        self.name = name_source(path)
        self.chunks = iter_text(path)
        self.text = ""
        self.at = 0
        self.line, self.column = 1, 1
        self.decode = JSON.raw_decode

    def peek(self) -> str:
        """Return the next character that is not white space, and move `at` to it.

        At the end of the file it is an empty string.
        """
        while (match := NOT_WHITE.search(self.text, self.at)) is None:
            self.at = len(self.text)
            if not self.read():
                return ""
        self.at = match.start()
        return match[0]

    def take(self, allowed: str) -> str:
        """Take the next character, which must be one of `allowed`."""
        character = self.peek()
        if not character or character not in allowed:
            expected = " or ".join(f"'{char}'" for char in allowed)
            raise self.error(f"{expected} is expected", self.at)
        self.at += 1
        return character

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; the caller takes each value before going on."""
        self.take("{")
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            if self.peek() != '"':
                raise self.error("a key in double quotes is expected", self.at)
            name = self.value()
            self.take(":")
            yield name
            if self.take(",}") == "}":
                return

    def elements(self) -> Iterator[Any]:
        """Yield the elements of a list."""
        self.take("[")
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            yield self.value()
            if self.take(",]") == "]":
                return

    def value(self) -> Any:
        """Parse the next value, of any kind."""
        self.peek()
        while True:
            try:
                value, end = self.decode(self.text, self.at)
            except json.JSONDecodeError as error:
                # The value may go on in the part that is not read yet.
                is_cut = error.msg.startswith("Unterminated string") or (
                    error.pos + MAX_TOKEN_CHARACTERS >= len(self.text)
                )
                if not (is_cut and self.read()):
                    raise self.error(json_problem(error), error.pos) from None
                continue
            except ValueError as error:
                raise self.error(json_fault(error), self.at) from None
            except RecursionError:
                raise self.error(TOO_DEEP, self.at) from None
            # A number may go on there as well, though what is read of it is a number already.
            if NOT_NUMERIC.search(self.text, end) or not self.read():
                return self.take_value(value, end)

    def take_value(self, value: Any, end: int) -> Any:
        """Move `at` to `end` and return the value, without half surrogate pairs."""
        start = self.at
        self.at = end
        try:
            return without_half_characters(value, self.text[start:end])
        except ValueError as error:
            raise self.error(json_fault(error), start) from None

    def read(self) -> bool:
        """Drop the parsed text, and read on: at least a chunk, and as much as is left unparsed.

        Returns False at the end of the file.
        """
        if len(self.text) - self.at > MAX_VALUE:
            line, column = self.line_and_column(self.at)
            raise InputError(
                f"{self.name}:{line}: a value of more than {MAX_VALUE:,} characters begins at "
                f"column {column:,}, and each must fit into memory. Divide it, or close its quote "
                "if that is open."
            )
        new_chunks = [next(self.chunks, "")]
        if not new_chunks[0]:
            return False
        self.line, self.column = self.line_and_column(self.at)
        # The text doubles each time, so that a long value is not parsed anew for each chunk.
        num_missing = len(self.text) - self.at - len(new_chunks[0])
        while num_missing > 0 and (chunk := next(self.chunks, "")):
            new_chunks.append(chunk)
            num_missing -= len(chunk)
        self.text = "".join([self.text[self.at :], *new_chunks])
        self.at = 0
        return True

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Return line and column of a position in `text`, both from 1."""
        line_start = self.text.rfind("\n", 0, position)
        column = self.column + position if line_start < 0 else position - line_start
        return self.line + self.text.count("\n", 0, position), column

    def error(self, problem: str, position: int) -> InputError:
        """Build the error for text that is not JSON; `position` is an index in `text`."""
        line, column = self.line_and_column(position)
        is_cut = position >= len(self.text) or problem.startswith("Unterminated string")
        end = " The file ends too early: copy it again." if is_cut else " Fix the file."
        return InputError(f"{self.name}:{line}: not JSON ({problem} at column {column:,}).{end}")
