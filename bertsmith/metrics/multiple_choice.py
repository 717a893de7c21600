"""Scores of multiple choice."""

from dataclasses import dataclass

from bertsmith.metrics.reading import ReadingCounts


@dataclass(frozen=True)
class ChoiceReport(ReadingCounts):
    """Scores of multiple choice; `chance` is the accuracy of guessing."""

    accuracy: float
    chance: float
    num_prompts: int

    def __str__(self) -> str:
        lines = [
            f"accuracy  {self.accuracy:.4f}   (share of the {self.num_prompts:,} prompts with the "
            f"right choice; guessing gets {self.chance:.4f})"
        ]
        return "\n".join([*lines, *self.notes("prompt, choices or label")])
