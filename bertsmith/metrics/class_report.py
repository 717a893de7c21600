"""Report of single-label classification, as text and as JSON.

The scores are computed from the confusion matrix: the number of texts by gold label (row) and
predicted label (column).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics import classification as metrics
from bertsmith.metrics.classification import ClassScore
from bertsmith.metrics.names import score_meaning
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun

MAX_SHOWN_CLASSES = 20
"""Largest number of classes whose confusion matrix is shown in a terminal; `--json` has it for any
number."""


@dataclass(frozen=True)
class ClassReport(Report, ReadingCounts):
    """Scores of a classifier on labelled texts.

    `accuracy` and F1 are from 0 to 1, `matthews_correlation` from -1 to 1. `confusion[i][j]` counts
    the texts of gold label `i` and predicted label `j`, in the order of `classes`.
    """

    accuracy: float
    macro_f1: float
    micro_f1: float
    """For `--json` and `--metric`; not shown, as it equals the accuracy."""
    matthews_correlation: float
    num_texts: int
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, remarks, the table of classes and the confusion matrix."""
        right = f"share of the {count_noun(self.num_texts, self.noun)} with the right label"
        contents: list[ScoreLine | Table | str] = [
            ScoreLine("accuracy", self.accuracy, right),
            ScoreLine("macro-F1", self.macro_f1, score_meaning("macro_f1")),
            ScoreLine("MCC", self.matthews_correlation, score_meaning("matthews_correlation")),
            *self.notes(),
            "",
            class_table(self.classes, self.noun),
        ]
        if len(self.classes) <= MAX_SHOWN_CLASSES:
            contents += ["", _confusion_table(self.classes, self.confusion)]
        return contents


def summarize(confusion: NDArray[np.int64], names: Sequence[str], **counts: Any) -> ClassReport:
    """Compute all scores from a confusion matrix, int64 `[classes, classes]`.

    Rows are gold labels; the sum is above 0. `counts` are the fields of `ReadingCounts`.
    """
    accuracy = metrics.accuracy(confusion)
    return ClassReport(
        accuracy=accuracy,
        macro_f1=metrics.macro_f1(confusion),
        micro_f1=accuracy,  # equal where each text has one label
        matthews_correlation=metrics.matthews_correlation(confusion),
        num_texts=int(confusion.sum()),
        classes=metrics.class_scores(
            names,
            correct=np.diagonal(confusion),
            predicted=confusion.sum(axis=0),
            support=confusion.sum(axis=1),
        ),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        **counts,
    )


def class_table(classes: Sequence[ClassScore], noun: str) -> Table:
    """Build the table of the scores of each class; `noun` names the examples, such as "text"."""
    return Table(
        ("label", "precision", "recall", "F1", f"{noun}s"),
        [
            (
                row.label,
                f"{row.precision:.4f}",
                f"{row.recall:.4f}",
                f"{row.f1:.4f}",
                f"{row.support:,}",
            )
            for row in classes
        ],
    )


def _confusion_table(classes: Sequence[ClassScore], confusion: Sequence[Sequence[int]]) -> Table:
    names = [row.label for row in classes]
    return Table(
        ("true", *names, "<- predicted"),  # the last column is empty but for its title
        [
            (name, *(f"{count:,}" for count in row), "")
            for name, row in zip(names, confusion, strict=True)
        ],
    )
