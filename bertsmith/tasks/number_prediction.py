"""Predictions of a regression: a number for each text."""

from dataclasses import asdict, dataclass
from typing import Any

from bertsmith.data.examples import Example
from bertsmith.system.counts import format_number
from bertsmith.system.notebook import html_table


@dataclass(frozen=True, slots=True)
class NumberPrediction:
    """The predicted number of a text or pair."""

    value: float
    """The number, in the unit of the training labels."""
    is_truncated: bool = False
    """Whether the end of the text was cut off, as it was longer than the model reads."""
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the text was read."""

    @property
    def answer(self) -> float:
        return self.value

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self, example: Example) -> str:
        return "\t".join([format_number(self.value), *example.one_line()])

    def _repr_html_(self) -> str:
        return html_table([(format_number(self.value),)], ("value",))
