"""Scores of multiple choice: a prompt has several choices, of which one is right."""

from dataclasses import dataclass

from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun


@dataclass(frozen=True)
class ChoiceReport(Report, ReadingCounts):
    """Scores of multiple choice; `chance` is the accuracy of guessing."""

    accuracy: float
    chance: float
    num_prompts: int

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the accuracy, and remarks."""
        right = f"share of the {count_noun(self.num_prompts, 'prompt')} with the right choice"
        return [
            ScoreLine("accuracy", self.accuracy, f"{right}; guessing gets {self.chance:.4f}"),
            *self.notes(lacking="prompt, choices or label"),
        ]
