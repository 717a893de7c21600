"""Scores where a text has any number of labels, equal to scikit-learn's.

Everything follows from counts for each label, which add up over portions of a file. A ratio with
an empty denominator (a label never predicted, or never present) counts as 0.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.class_report import ClassScore, class_table
from bertsmith.metrics.classification import ratio
from bertsmith.metrics.reading import reading_notes

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LabelCounts:
    """Decisions counted, int64 `[labels]` each; `num_exact` of `num_texts` have all right."""

    true_positives: NDArray[np.int64]
    predicted: NDArray[np.int64]
    support: NDArray[np.int64]
    num_exact: int
    num_texts: int

    @classmethod
    def of(cls, true: Flags, predicted: Flags) -> "LabelCounts":
        """Count bool `[texts, labels]`."""
        return cls(
            (true & predicted).sum(0),
            predicted.sum(0),
            true.sum(0),
            int((true == predicted).all(1).sum()),
            len(true),
        )

    def __add__(self, other: "LabelCounts") -> "LabelCounts":
        return LabelCounts(
            self.true_positives + other.true_positives,
            self.predicted + other.predicted,
            self.support + other.support,
            self.num_exact + other.num_exact,
            self.num_texts + other.num_texts,
        )

    @property
    def subset_accuracy(self) -> float:
        """The share of texts with exactly the right labels."""
        return self.num_exact / self.num_texts

    @property
    def f1(self) -> NDArray[np.float64]:
        """F1 of each label, `[labels]`."""
        return ratio(2 * self.true_positives, self.predicted + self.support)

    @property
    def macro_f1(self) -> float:
        """The mean over all labels, those that never occur included."""
        return float(np.average(self.f1))

    @property
    def micro_f1(self) -> float:
        """F1 over all decisions pooled."""
        total = int(self.predicted.sum() + self.support.sum())
        return 2 * int(self.true_positives.sum()) / total if total else 0.0


@dataclass(frozen=True)
class MultiLabelReport:
    """Scores of a model that gives texts any number of labels."""

    subset_accuracy: float
    micro_f1: float
    macro_f1: float
    num_texts: int
    num_truncated: int
    num_windowed: int
    num_skipped: int
    classes: tuple[ClassScore, ...]

    @classmethod
    def of(
        cls,
        counts: LabelCounts,
        names: Sequence[str],
        *,
        num_truncated: int = 0,
        num_windowed: int = 0,
        num_skipped: int = 0,
    ) -> Self:
        """The scores that follow from the counts of the labels `names`."""
        return cls(
            subset_accuracy=counts.subset_accuracy,
            micro_f1=counts.micro_f1,
            macro_f1=counts.macro_f1,
            num_texts=counts.num_texts,
            num_truncated=num_truncated,
            num_windowed=num_windowed,
            num_skipped=num_skipped,
            classes=label_scores(counts, names),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """The figures and a table of the labels."""
        return "\n".join(
            [
                f"micro-F1  {self.micro_f1:.4f}   (F1 over all decisions)",
                f"macro-F1  {self.macro_f1:.4f}   (mean F1 of the labels, each counting the same)",
                f"subset    {self.subset_accuracy:.4f}   (share of the {self.num_texts:,} texts "
                "with exactly the right labels)",
                *reading_notes(self.num_truncated, self.num_windowed, self.num_skipped),
                "",
                *class_table(self.classes),
            ]
        )


def label_scores(counts: LabelCounts, names: Sequence[str]) -> tuple[ClassScore, ...]:
    """How each label was recognized."""
    columns = (
        ratio(counts.true_positives, counts.predicted),
        ratio(counts.true_positives, counts.support),
        counts.f1,
        counts.support,
    )
    rows = zip(names, *(column.tolist() for column in columns), strict=True)
    return tuple(ClassScore(*row) for row in rows)
