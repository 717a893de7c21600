"""Predictions of a classifier: one label of a text, or several."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertsmith.data.examples import Example
from bertsmith.data.label_values import label_name
from bertsmith.pages.page import unbroken_percent
from bertsmith.system.notebook import html_table
from bertsmith.tasks.marks import MarkedPart, color_of
from bertsmith.tasks.notebook_tables import likeliest


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The likeliest label of a text, and the probability of every label.

    Labels have the type that they had in training: string, integer, float or boolean.
    """

    label: Any
    probabilities: Mapping[Any, float]
    is_truncated: bool = False
    """Whether the end of the text was cut off, as it was longer than the model reads."""
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the text was read."""

    @property
    def probability(self) -> float:
        """The probability of the label, from 0 to 1."""
        return self.probabilities[self.label]

    @property
    def answer(self) -> Any:
        return self.label

    @property
    def name(self) -> str:
        """The label as a string, as in config.json and in files."""
        return label_name(self.label)

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "probability": self.probability,
            "probabilities": dict(self.probabilities),
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: Example) -> str:
        label = " ".join(self.name.split())
        return "\t".join([label, f"{self.probability:.4f}", *example.one_line()])

    def _repr_html_(self) -> str:
        rows = [
            (label_name(label), f"{probability:.4f}")
            for label, probability in likeliest(self.probabilities)
        ]
        return html_table(rows, ("label", "probability"))

    def label_parts(self) -> list[MarkedPart]:
        """Return the label in the color that it has among all labels, for an HTML page."""
        names = list(map(label_name, self.probabilities))
        return [MarkedPart(self.name, color=color_of(self.name, names))]


@dataclass(frozen=True, slots=True)
class LabelsPrediction:
    """The labels of a text, and the probability of every label.

    Labels have the type that they had in training.
    """

    labels: tuple[Any, ...]
    probabilities: Mapping[Any, float]
    is_truncated: bool = False
    """Whether the end of the text was cut off, as it was longer than the model reads."""
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the text was read."""

    @property
    def answer(self) -> tuple[Any, ...]:
        return self.labels

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(map(label_name, self.labels))

    def to_json(self) -> dict[str, Any]:
        return {
            "labels": list(self.labels),
            "probabilities": dict(self.probabilities),
            "is_truncated": self.is_truncated,
            "num_windows": self.num_windows,
        }

    def line(self, example: Example) -> str:
        labels_with_probabilities = ", ".join(
            f"{name} {self.probabilities[label]:.4f}"
            for name, label in zip(self.names, self.labels, strict=True)
        )
        on_one_line = " ".join(labels_with_probabilities.split())
        return "\t".join([on_one_line or "–", *example.one_line()])  # "–" stands for no label

    def _repr_html_(self) -> str:
        rows = [
            (label_name(label), f"{probability:.4f}", "yes" if label in self.labels else "no")
            for label, probability in likeliest(self.probabilities)
        ]
        return html_table(rows, ("label", "probability", "predicted"))

    def label_parts(self) -> list[MarkedPart]:
        """Return the labels with their probabilities, each in its color, for an HTML page."""
        names = list(map(label_name, self.probabilities))
        parts: list[MarkedPart] = []
        for name, label in zip(self.names, self.labels, strict=True):
            percent = unbroken_percent(self.probabilities[label])
            parts += [MarkedPart(name, percent, color_of(name, names)), MarkedPart(" ")]
        return parts[:-1]  # without the space after the last label
