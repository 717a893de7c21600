"""How one file is read: what is asked of it, what happens to a bad row, and where it is counted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from bertsmith.data.sources import Source
from bertsmith.errors import InputError

Errors = Literal["strict", "skip"]

_SKIP_ADVICE = "or pass --errors skip (what is skipped is counted)"


@dataclass
class SourceReport:
    """What was read and what was not; filled while documents stream.

    `bytes` counts the text after decompression, `bytes_read` of `bytes_on_disk` the files
    themselves. `skipped` counts by reason what gave no document; `cut` counts the long
    documents and lines that were divided, of which nothing is lost.
    """

    files: int = 0
    documents: int = 0
    bytes: int = 0
    bytes_read: int = 0
    bytes_on_disk: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Reading:
    """One file being read: what is asked of it, and where the counts go."""

    source: Source
    text_column: str
    errors: Errors
    report: SourceReport

    def count_bytes(self, count: int) -> None:
        """Note that so many bytes of the file on disk were read."""
        self.report.bytes_read += count

    def reject(self, reason: str, place: str, found: str, advice: str) -> None:
        """Refuse a line, row or empty file: an error, or one more in the count of skipped."""
        if self.errors == "strict":
            raise InputError(f"{self.source.path}{place}: {found}. {advice}, {_SKIP_ADVICE}.")
        self.report.skipped[reason] += 1

    def reject_empty(self) -> None:
        """Refuse a file without a byte."""
        self.reject("empty_files", "", "the file is empty", "Remove it")

    def describe_missing_column(self, names: Iterable[object]) -> str:
        """Say that the text column is not among the columns found."""
        found = ", ".join(repr(str(name)[:40]) for name in list(names)[:20])
        return f"no column {self.text_column!r}, found: {found or 'none'}"

    def describe_repeated_column(self) -> str:
        """Say that several columns have the name of the text column."""
        return f"several columns are called {self.text_column!r}. Rename all but the right one."
