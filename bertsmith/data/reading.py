"""The state of reading one file of documents: settings, rejection of bad rows, and counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from bertsmith.data.sources import Source
from bertsmith.errors import InputError, option
from bertsmith.system.counts import count_noun

Errors = Literal["strict", "skip"]
"""The treatment of a line or row that cannot be read: raise an error, or skip and count it."""

_SKIP_ADVICE = f"or pass {option('errors', 'skip')} (what is skipped is counted)"


REASONS = {
    "bad_json": ("line that is not JSON", "lines that are not JSON"),
    "bad_rows": ("damaged row", "damaged rows"),
    "control_only_documents": (
        "document of control characters alone",
        "documents of control characters alone",
    ),
    "documents_without_tokens": ("document without tokens", "documents without tokens"),
    "duplicate_documents": ("duplicate document", "duplicate documents"),
    "empty_documents": ("empty document", "empty documents"),
    "empty_files": ("empty file", "empty files"),
    "held_out_files": ("held-out file", "held-out files"),
    "invalid_utf8": ("text that is not UTF-8", "texts that are not UTF-8"),
    "long_documents": ("long document", "long documents"),
    "long_lines": ("long line", "long lines"),
    "long_rows": ("row that is too long", "rows that are too long"),
    "missing_column": ("row without the text column", "rows without the text column"),
    "not_a_string": ("text that is not a string", "texts that are not strings"),
    "nul_bytes": ("line with a NUL byte", "lines with a NUL byte"),
    "repeated_files": ("repeated file", "repeated files"),
    "unsupported_files": ("file of an unsupported format", "files of an unsupported format"),
}
"""Singular and plural of what was skipped or divided, by the keys that manifest.json has for it."""


def format_reason(reason: str, count: int) -> str:
    """Format a count of what was skipped or divided.

    >>> format_reason("empty_documents", 1), format_reason("bad_rows", 2000)
    ('1 empty document', '2,000 damaged rows')
    """
    return count_noun(count, *REASONS.get(reason, [reason.replace("_", " ")] * 2))


@dataclass
class SourceReport:
    """Counts of the texts that were read and skipped, updated while documents are read.

    `bytes` counts the text after decompression. `bytes_on_disk` is the size of all files, and
    `bytes_read` counts how many of these bytes were read so far. `skipped` counts by reason what
    gave no document; `cut` counts the long documents and lines that were divided, of which nothing
    is lost. `html_tags` counts the tags in the texts, which are not removed.
    """

    files: int = 0
    documents: int = 0
    bytes: int = 0
    bytes_read: int = 0
    bytes_on_disk: int = 0
    html_tags: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)

    def add(self, other: "SourceReport") -> None:
        """Add the counts of another process, except `bytes_on_disk`, which is known beforehand."""
        for name in ("files", "documents", "bytes", "bytes_read", "html_tags", "skipped", "cut"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return counts | {"skipped": dict(self.skipped), "cut": dict(self.cut)}

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> "SourceReport":
        """Restore the counts that `to_json` returned."""
        counters = {name: Counter(counts[name]) for name in ("skipped", "cut")}
        return cls(**{**counts, **counters})

    def describe_skipped(self) -> str:
        """Format the counts of what was skipped, for messages."""
        return ", ".join(format_reason(*each) for each in sorted(self.skipped.items())) or "nothing"


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings and counts for reading one file, from byte `start` on.

    Attributes:
        text_column: column or key whose texts are the documents; .txt files have none.
        report: gets the counts of what is read and skipped.
    """

    source: Source
    text_column: str
    errors: Errors
    report: SourceReport
    start: int = 0
    column_option: str = "text_column"
    """Name of the option by which the user chooses the text column."""
    can_skip: bool = True
    """Whether `errors="skip"` applies. It does not while the header of a table is read: without
    the header, the first row would be taken for it."""

    @property
    def skips(self) -> bool:
        """Whether a line, row or file that cannot be read is left out and counted, not an error."""
        return self.can_skip and self.errors == "skip"

    def count_bytes(self, count: int) -> None:
        """Count bytes of the file on disk that were read."""
        self.report.bytes_read += count

    def reject(self, reason: str, location: str, problem: str, advice: str) -> None:
        """Reject a line, row or empty file: count it as skipped if `skips`, otherwise raise.

        Args:
            reason: one of the keys of `REASONS`.
            location: what follows the path in the message, such as ":3"; empty for a whole file.
            advice: a sentence without its end: here "or pass ..." may follow, and then a full stop.

        Raises:
            InputError: `skips` is false.
        """
        if self.skips:
            self.report.skipped[reason] += 1
            return
        if self.can_skip:
            advice += f", {_SKIP_ADVICE}"
        raise InputError(f"{self.source.path}{location}: {problem}. {advice}.")

    def describe_missing_column(self, names: Iterable[object]) -> str:
        """Say that the text column is not among the columns there."""
        shown_names = ", ".join(repr(str(name)[:40]) for name in list(names)[:20])
        return f"no column {self.text_column!r}, found: {shown_names or 'none'}"

    def describe_repeated_column(self) -> str:
        """Say that several columns have the name of the text column."""
        return f"several columns are called {self.text_column!r}. Rename all but the right one."
