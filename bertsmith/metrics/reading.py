"""Counts of the examples of a report that were truncated, windowed or skipped."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ReadingCounts:
    """Base of reports.

    `num_truncated` examples were cut to the model's length, `num_windowed` read in windows;
    `num_skipped` rows lacked something.
    """

    num_truncated: int = 0
    num_windowed: int = 0
    num_skipped: int = 0

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return values | {name: values.pop(name) for name in ReadingCounts.__annotations__}

    def notes(self, lacking: str = "text or label") -> list[str]:
        notes = []
        if self.num_windowed:
            notes.append(f"{self.num_windowed:,} texts were longer than the model reads and were "
                         "read in windows")  # fmt: skip
        if self.num_truncated:
            notes.append(f"{self.num_truncated:,} texts were longer than the model reads; their "
                         "ends were cut off")  # fmt: skip
        if self.num_skipped:
            notes.append(f"{self.num_skipped:,} rows without {lacking} were skipped")
        return notes
