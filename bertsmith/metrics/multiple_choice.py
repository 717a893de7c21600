"""Scores of multiple choice."""

from dataclasses import dataclass

from bertsmith.metrics.reading import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table


@dataclass(frozen=True)
class ChoiceReport(Report, ReadingCounts):
    """Scores of multiple choice; `chance` is the accuracy of guessing."""

    accuracy: float
    chance: float
    num_prompts: int

    def contents(self) -> list[ScoreLine | Table | str]:
        right = f"share of the {self.num_prompts:,} prompts with the right choice"
        return [
            ScoreLine("accuracy", self.accuracy, f"{right}; guessing gets {self.chance:.4f}"),
            *self.notes("prompt, choices or label"),
        ]
