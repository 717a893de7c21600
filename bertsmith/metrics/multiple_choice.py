"""Scores of multiple choice."""

from dataclasses import asdict, dataclass
from typing import Any

from bertsmith.metrics.reading import reading_notes


@dataclass(frozen=True)
class ChoiceReport:
    """Scores of multiple choice; `chance` is the accuracy of guessing."""

    accuracy: float
    chance: float
    num_prompts: int
    num_truncated: int
    num_windowed: int
    num_skipped: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"accuracy  {self.accuracy:.4f}   (share of the {self.num_prompts:,} prompts with the "
            f"right choice; guessing gets {self.chance:.4f})"
        ]
        lacking = "prompt, choices or label"
        notes = reading_notes(self.num_truncated, self.num_windowed, self.num_skipped, lacking)
        return "\n".join([*lines, *notes])
