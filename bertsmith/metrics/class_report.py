"""Report of single-label classification, as text and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics import classification as metrics
from bertsmith.metrics.classification import ClassScore
from bertsmith.metrics.reading import ReadingCounts

MAX_SHOWN_CLASSES = 20
"""Classes of the largest confusion matrix that fits a terminal; `--json` has larger ones too."""


@dataclass(frozen=True)
class ClassReport(ReadingCounts):
    """Scores of a classifier on labelled texts.

    `confusion[i][j]` counts the texts of gold label `i` and predicted label `j`, in the order of
    `classes`.
    """

    accuracy: float
    macro_f1: float
    micro_f1: float
    matthews_correlation: float
    num_texts: int
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        lines = [
            f"accuracy  {self.accuracy:.4f}   (share of the {self.num_texts:,} texts with the "
            "right label)",
            f"macro-F1  {self.macro_f1:.4f}   (mean F1 of the classes, each counting the same)",
            f"MCC       {self.matthews_correlation:.4f}   (correlation with the truth; guessing "
            "gets 0)",
            *self.notes(),
            "",
            *class_table(self.classes),
        ]
        if len(self.classes) <= MAX_SHOWN_CLASSES:
            lines += ["", *_confusion_table(self.classes, self.confusion)]
        return "\n".join(lines)


def summarize(confusion: NDArray[np.int64], names: Sequence[str], **counts: int) -> ClassReport:
    """Compute all scores from a confusion matrix `[classes, classes]`; keep `counts` of reading."""
    accuracy = metrics.accuracy(confusion)
    counted = np.diagonal(confusion), confusion.sum(axis=0), confusion.sum(axis=1)
    return ClassReport(
        accuracy=accuracy,
        macro_f1=metrics.macro_f1(confusion),
        micro_f1=accuracy,  # equal where each text has one label
        matthews_correlation=metrics.matthews_correlation(confusion),
        num_texts=int(confusion.sum()),
        classes=metrics.class_scores(names, *counted),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        **counts,
    )


def class_table(classes: Sequence[ClassScore]) -> list[str]:
    width = max(5, *(len(row.label) for row in classes))
    head = f"{'label':<{width}}  precision  recall      F1  texts"
    return [head] + [
        f"{row.label:<{width}}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}"
        f"  {row.support:5,}"
        for row in classes
    ]


def _confusion_table(
    classes: Sequence[ClassScore], confusion: Sequence[Sequence[int]]
) -> list[str]:
    names = [row.label for row in classes]
    first = max(4, *(len(name) for name in names))
    widths = [
        max(len(name), *(len(f"{row[i]:,}") for row in confusion)) for i, name in enumerate(names)
    ]
    head = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    return [f"{'true':<{first}}  {head}   <- predicted"] + [
        f"{name:<{first}}  "
        + "  ".join(f"{count:>{width},}" for count, width in zip(row, widths, strict=True))
        for name, row in zip(names, confusion, strict=True)
    ]
