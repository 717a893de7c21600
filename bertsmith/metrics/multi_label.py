"""Metrics of multi-label classification, equal to scikit-learn's.

A text may have several labels, or none. All metrics are computed from counts for each label, which
are summed over batches. A ratio with a denominator of 0 (a label that is never predicted, or never
present) is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.class_report import class_table
from bertsmith.metrics.classification import ClassScore, class_scores
from bertsmith.metrics.names import score_meaning
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun

Flags = NDArray[np.bool_]
"""Whether each text has each label, `[texts, labels]`."""


@dataclass(frozen=True)
class LabelCounts:
    """Counts of texts by label, int64 `[labels]`, and over all labels.

    `predicted` counts the texts that were predicted to have the label, `support` those that have
    it, and `true_positives` those for which both hold. `num_exact` of the `num_texts` texts have
    all labels right.
    """

    true_positives: NDArray[np.int64]
    predicted: NDArray[np.int64]
    support: NDArray[np.int64]
    num_exact: int
    num_texts: int

    @classmethod
    def of(cls, true: Flags, predicted: Flags) -> "LabelCounts":
        """Count gold and predicted flags, bool `[texts, labels]`."""
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


@dataclass(frozen=True)
class MultiLabelReport(Report, ReadingCounts):
    """Scores of a multi-label classifier on labelled texts, from 0 to 1.

    `subset_accuracy` is the share of texts with exactly the right labels. `macro_f1` is the mean
    over all labels; those that never occur have an F1 of 0.
    """

    subset_accuracy: float
    micro_f1: float
    macro_f1: float
    num_texts: int
    classes: tuple[ClassScore, ...]

    @classmethod
    def of(cls, counts: LabelCounts, names: Sequence[str], **reading: Any) -> Self:
        """Compute the scores; `reading` are the fields of `ReadingCounts`."""
        columns = counts.true_positives, counts.predicted, counts.support
        classes = class_scores(names, *columns)
        right, predicted, support = (int(column.sum()) for column in columns)
        total = predicted + support
        return cls(
            subset_accuracy=counts.num_exact / counts.num_texts,
            micro_f1=2 * right / total if total else 0.0,
            macro_f1=float(np.average([row.f1 for row in classes])),  # with those that never occur
            num_texts=counts.num_texts,
            classes=classes,
            **reading,
        )

    @property
    def accuracy(self) -> float:
        """The subset accuracy, under the name that `--metric` has for it."""
        return self.subset_accuracy

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, remarks and the table of labels."""
        examples = count_noun(self.num_texts, self.noun)
        return [
            ScoreLine("micro-F1", self.micro_f1, score_meaning("micro_f1")),
            ScoreLine("macro-F1", self.macro_f1, score_meaning("macro_f1")),
            ScoreLine("subset", self.subset_accuracy, score_meaning("subset_accuracy", examples)),
            *self.notes(),
            "",
            class_table(self.classes, self.noun),
        ]
