"""Predictions of multiple choice: the likeliest of several texts, the choices, beside a prompt."""

from dataclasses import dataclass
from typing import Any

from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.system.notebook import html_table


@dataclass(frozen=True, slots=True)
class ChoicePrediction:
    """The likeliest choice of a prompt, and the probability of every one."""

    number: int
    """Index of the choice, from 0."""
    text: str
    probabilities: tuple[float, ...]
    is_truncated: bool
    """Whether the end of the prompt or of a choice was cut off."""
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the prompt was read."""

    @property
    def probability(self) -> float:
        """The probability of the choice, from 0 to 1."""
        return self.probabilities[self.number]

    @property
    def answer(self) -> int:
        return self.number

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.number,
            "choice": self.text,
            "probability": self.probability,
            "probabilities": list(self.probabilities),
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: ChoiceExample) -> str:
        texts = (" ".join(text.split()) for text in (example.text, self.text))
        return "\t".join([str(self.number), f"{self.probability:.4f}", *texts])

    def _repr_html_(self) -> str:
        # A prediction holds the text of the predicted choice alone.
        rows = [
            (str(number), f"{probability:.4f}", self.text if number == self.number else "")
            for number, probability in enumerate(self.probabilities)
        ]
        return html_table(rows, ("number", "probability", "choice"))
