"""Counts of the examples of a report that were truncated, windowed or skipped."""

from dataclasses import asdict, dataclass
from typing import Any

from bertsmith.system.counts import line_with_count


@dataclass(frozen=True, kw_only=True)
class ReadingCounts:
    """Counts of how examples were read, a base class of reports.

    `num_truncated` examples were cut to the model's length; `num_windowed` were read in windows,
    overlapping parts; `num_skipped` rows were skipped because a needed cell was empty.
    """

    num_truncated: int = 0
    num_windowed: int = 0
    num_skipped: int = 0
    noun: str = "text"
    """Noun for an example in the report as text: text or pair. JSON does not have it."""

    def to_json(self) -> dict[str, Any]:
        """Return the report's fields, the counts last."""
        values = asdict(self)
        counts = {name: values.pop(name) for name in ReadingCounts.__annotations__}  # its fields
        del counts["noun"]
        return values | counts

    def notes(self, lacking: str = "text or label") -> list[str]:
        """List remarks on the counts above 0; `lacking` names the cells that skipped rows lack."""
        return [
            *line_with_count(
                self.num_windowed,
                "text was longer than the model reads and was read in windows",
                "texts were longer than the model reads and were read in windows",
            ),
            *line_with_count(
                self.num_truncated,
                "text was longer than the model reads; its end was cut off",
                "texts were longer than the model reads; their ends were cut off",
            ),
            *line_with_count(
                self.num_skipped,
                f"row without {lacking} was skipped",
                f"rows without {lacking} were skipped",
            ),
        ]
