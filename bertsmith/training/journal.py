"""Read and write `journal.jsonl`, a run's metrics: one JSON object per step or eval.

Lines are buffered. They are written to the file about once a second, and are safe on the disk at
every checkpoint. A run that is resumed from a checkpoint first removes the lines of later steps,
even half a line, so that the file reads as if the run had never stopped.

The last key of a line is a CRC-32 of the object without this key, by which altered lines are
recognized. A journal of an earlier version has no checksums. It is read without them, and gets them
when its run is resumed.
"""

import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from bertsmith.errors import CheckpointError, read_error
from bertsmith.system.files import atomic_write
from bertsmith.system.json_text import parse_json, shown_json

FLUSH_SECONDS = 1.0

ENTRY_CHECKSUM = "crc32"
"""Key of the checksum in a line."""
CHECKED_END = re.compile(rb', "crc32": "([0-9a-f]{8})"\}')
"""Pattern of the end of a line, from the checksum on."""
MAX_NUMBER = sys.float_info.max
"""Largest finite number. JSON may hold larger whole numbers, which no chart or mean can."""


class JournalEntry(dict[str, Any]):
    """A line of a journal; all values are numbers. Reading a missing value raises an error."""

    place = "journal.jsonl"
    """The file and the number of the line, for errors."""

    @classmethod
    def of(cls, place: str, values: Mapping[str, Any]) -> Self:
        entry = cls(values)
        entry.place = place
        return entry

    def __missing__(self, key: str) -> NoReturn:
        raise _damaged_line(self.place, f"'{key}' is missing")

    def check(self) -> None:
        """Check the types of the values.

        Raises:
            CheckpointError: `step` is not a whole number from 0 on, or another value is not a
                finite number; names the line.
        """
        step = self.get("step")
        if type(step) is not int or step < 0:
            raise _damaged_line(self.place, "not a line of a journal")
        for name, value in self.items():
            if type(value) not in (int, float) or not abs(value) <= MAX_NUMBER:  # NaN is not <=
                shown = shown_json(value)
                raise _damaged_line(self.place, f"'{name}' is {shown}, and must be a finite number")


def _damaged_line(place: str, reason: str) -> CheckpointError:
    return CheckpointError(f"{place}: {reason}. Correct or remove that line.")


class Journal:
    """Appends JSON lines to a file, which it closes at the end of its context."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", newline="\n")
        self._flushed_at = time.monotonic()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one object, which may be written to the file a second later."""
        self._file.write(_to_line(entry))
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self._file.flush()
            self._flushed_at = time.monotonic()

    def sync(self) -> None:
        """Write all lines so far to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._flushed_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


def _to_line(entry: Mapping[str, Any]) -> str:
    """Format an entry as a line that ends with its checksum."""
    text = json.dumps(entry)
    checksum = f"{zlib.crc32(text.encode()):08x}"
    return json.dumps({**entry, ENTRY_CHECKSUM: checksum}) + "\n"


def read_journal(path: Path) -> list[JournalEntry]:
    """Read all complete lines, in order; ignore an incomplete last line.

    Raises:
        FileNotFoundError: there is no journal.
        CheckpointError: a line is not an object of numbers, or was altered; names the line. Or the
            file cannot be read.
    """
    return [entry for _, entry in _read_lines(path)]


def _read_lines(path: Path) -> Iterator[tuple[str, JournalEntry]]:
    """Yield each complete line as text with a checksum, and its entry without the checksum.

    Raises:
        FileNotFoundError, CheckpointError: as `read_journal`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise read_error(CheckpointError, path, error) from error
    complete, newline, unfinished = content.rpartition(b"\n")
    lines = (complete + newline).splitlines()
    if CHECKED_END.search(unfinished) and not unfinished.endswith(b"}"):
        lines.append(unfinished)  # a complete line whose end was altered
    has_checksums = any(map(CHECKED_END.search, lines))  # False: an earlier version wrote it
    for number, line in enumerate(lines, start=1):
        place = f"{path}:{number}"
        values = _checked_entry(line) if has_checksums else _parse(line)
        if not isinstance(values, dict):
            reason = "was altered after it was written"
            raise _damaged_line(place, reason if has_checksums else "not a line of a journal")
        entry = JournalEntry.of(place, values)
        entry.check()
        yield _to_line(entry), entry


def _checked_entry(line: bytes) -> Any:
    """Parse a line; None if its checksum is wrong or missing."""
    checksum = CHECKED_END.search(line)
    if checksum is None or checksum.end() != len(line):
        return None
    text = line[: checksum.start()] + b"}"
    return _parse(text) if f"{zlib.crc32(text):08x}".encode() == checksum[1] else None


def _parse(text: bytes) -> Any:
    """Parse JSON; None if it is damaged."""
    try:
        return parse_json(text)
    except ValueError:
        return None


def cut_journal(path: Path, last_step: int) -> list[JournalEntry]:
    """Remove the lines after `last_step`, and an incomplete last line.

    Returns the remaining entries.

    Raises:
        CheckpointError: as `read_journal`.
    """
    if not path.exists():
        return []
    lines = [(line, entry) for line, entry in _read_lines(path) if entry["step"] <= last_step]
    with atomic_write(path, "w") as file:
        file.writelines(line for line, _ in lines)
    return [entry for _, entry in lines]


def is_held_out(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is of an eval; entries of steps have a learning rate."""
    return "learning_rate" not in entry
