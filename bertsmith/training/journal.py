"""Read and write `journal.jsonl`: one JSON object per step or eval.

Lines are buffered and reach the disk about once a second and at every checkpoint. A run that is
continued from a checkpoint first cuts what was written after it, a half line included, so that
the file reads as if the run had never stopped.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from bertsmith.errors import CheckpointError
from bertsmith.system.files import atomic_write

FLUSH_SECONDS = 1.0


class Journal:
    """Writer that appends JSON lines to a file; use it as a context."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", newline="\n")
        self._flushed_at = time.monotonic()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one object; it may stay in memory for a second."""
        self._file.write(json.dumps(entry) + "\n")
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self._file.flush()
            self._flushed_at = time.monotonic()

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._flushed_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read all whole lines, in order; drop a last line without its end.

    Raises:
        CheckpointError: a line that is not a JSON object; names the line.
    """
    return [entry for _, entry in _read_lines(path)]


def _read_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    whole, end, _ = path.read_bytes().rpartition(b"\n")
    for number, line in enumerate((whole + end).splitlines(keepends=True), start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
            raise CheckpointError(
                f"{path}:{number}: not a line of a journal. Mend or remove that line."
            )
        yield line, entry


def cut_journal(path: Path, last_step: int) -> list[dict[str, Any]]:
    """Keep the lines up to `last_step`, byte for byte; drop a half line.

    Returns the entries that stay.
    """
    if not path.exists():
        return []
    kept = [(line, entry) for line, entry in _read_lines(path) if entry["step"] <= last_step]
    with atomic_write(path) as file:
        file.writelines(line for line, _ in kept)
    return [entry for _, entry in kept]


def is_held_out(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is of an eval rather than a step."""
    return "learning_rate" not in entry
