"""Metrics of single-label classification, equal to scikit-learn's to the last digit.

The metrics of classes are computed from the confusion matrix, in float64 and with scikit-learn's
order of operations. Where scikit-learn has no value, or warns, the score is 0: a ratio with a
denominator of 0 (a class that is never predicted, or never present), and the area under the curve
of labels that are all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.regression import ranks

NUM_BINS = 15
"""Number of bins of confidence, that of Guo et al. 2017."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of similar confidence: their mean confidence and their accuracy."""

    confidence: float
    accuracy: float
    count: int


def _zeros() -> NDArray[np.float64]:
    return np.zeros(NUM_BINS)


@dataclass
class Calibration:
    """Accumulator of confidences and correct predictions, in bins of equal width.

    The confidence is the probability of the predicted answer. For each bin, float64 `[NUM_BINS]`:
    `counts` counts its predictions, `confidence` is the sum of their confidences, and `right`
    counts the correct ones.
    """

    counts: NDArray[np.float64] = field(default_factory=_zeros)
    confidence: NDArray[np.float64] = field(default_factory=_zeros)
    right: NDArray[np.float64] = field(default_factory=_zeros)

    def add(self, confidences: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        """Add the confidences of predictions, from 0 to 1.

        `right` is 1 for a correct prediction and 0 for a wrong one; both arrays are float64
        `[predictions]`.
        """
        # A confidence on the border of two bins belongs to the lower one, as in the paper.
        bins = np.clip(np.ceil(confidences * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)
        self.counts += np.bincount(bins, minlength=NUM_BINS)
        self.confidence += np.bincount(bins, confidences, NUM_BINS)
        self.right += np.bincount(bins, right, NUM_BINS)

    @property
    def num_predictions(self) -> int:
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        """Expected calibration error (Guo et al. 2017, eq. 3); 0 without predictions.

        It is the mean distance of a bin's accuracy from its mean confidence, weighted by the number
        of its predictions.
        """
        total = self.counts.sum()
        return float(np.abs(self.right - self.confidence).sum() / total) if total else 0.0

    def bins(self) -> list[Bin]:
        """Return the bins that are not empty, in order of rising confidence."""
        return [
            Bin(float(confidence / count), float(right / count), int(count))
            for count, confidence, right in zip(
                self.counts, self.confidence, self.right, strict=True
            )
            if count
        ]


Counts = NDArray[np.int64]
"""Numbers of texts, by class or by pair of classes."""
Labels = NDArray[np.int64]
"""Labels as indices of classes."""
Scores = NDArray[np.float64]
"""Numbers that are higher for a label 1 than for a label 0, or ratios from 0 to 1."""


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class; `support` counts its gold labels."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def confusion_matrix(labels: Labels, predictions: Labels, num_classes: int) -> Counts:
    """Count gold labels (rows) by predicted labels (columns), int64 `[classes, classes]`.

    >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    cells = np.asarray(labels, dtype=np.int64) * num_classes + predictions
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def accuracy(confusion: Counts) -> float:
    """Compute the share of right predictions from a confusion matrix, `[classes, classes]`."""
    return float(np.trace(confusion) / confusion.sum())


def class_scores(
    names: Sequence[str], correct: Counts, predicted: Counts, support: Counts
) -> tuple[ClassScore, ...]:
    """Compute precision, recall and F1, 0 to 1, and support of every class.

    `correct`, `predicted` and `support` are counts, int64 `[classes]`. A ratio with a denominator
    of 0 is 0.
    """
    columns = (
        ratio(correct, predicted),
        ratio(correct, support),
        ratio(2 * correct, predicted + support),
        support,
    )
    rows = zip(names, *(column.tolist() for column in columns), strict=True)
    return tuple(ClassScore(*row) for row in rows)


def macro_f1(confusion: Counts) -> float:
    """Average F1 over the classes that occur, as gold or predicted label.

    A class that is neither in the data nor predicted has no F1, and would only lower the mean.
    """
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    return float(np.average(ratio(2 * np.diagonal(confusion), total)[total > 0]))


def matthews_correlation(confusion: Counts) -> float:
    """Compute the Matthews correlation coefficient, in [-1, 1]; 0 is chance level.

    For several classes this is R_K (Gorodkin, 2004, "Comparing two K-category assignments by a
    K-category correlation coefficient", eq. 8); for two it is Matthews' phi. If gold or predicted
    labels are all of one class, they have no variance and the result is 0.
    """
    true = confusion.sum(axis=1, dtype=np.float64)
    predicted = confusion.sum(axis=0, dtype=np.float64)
    total = predicted.sum()
    covariance = np.trace(confusion, dtype=np.float64) * total - np.dot(true, predicted)
    variances = (total**2 - np.dot(predicted, predicted)) * (total**2 - np.dot(true, true))
    return 0.0 if variances == 0 else float(covariance / np.sqrt(variances))


def roc_auc(labels: Labels, scores: Scores) -> float:
    """Compute the area under the ROC curve, 0 to 1, of labels 0 and 1.

    The area is the probability that a random example of label 1 has a higher score than a random
    example of label 0; ties count half. The result is 0 if all labels are the same.

    >>> roc_auc(np.array([0, 1, 0, 1]), np.array([0.1, 0.3, 0.3, 0.9]))
    0.875
    """
    num_ones = int(np.sum(labels))
    num_pairs = num_ones * (len(labels) - num_ones)
    if num_pairs == 0:
        return 0.0
    # The rank of an example counts the example itself and those with lower scores. The sum of the
    # ranks of the ones counts the pairs in which a zero has a lower score than a one, and the ranks
    # of the ones among themselves, which are subtracted.
    rank_sum = ranks(scores)[np.asarray(labels) == 1].sum()
    num_right_pairs = rank_sum - num_ones * (num_ones + 1) / 2
    return float(num_right_pairs / num_pairs)


def ratio(numerator: NDArray[np.generic], denominator: Counts) -> Scores:
    """Divide element-wise in float64; 0 where the denominator is 0."""
    quotients = np.zeros(len(denominator), dtype=np.float64)
    np.divide(numerator, denominator, out=quotients, where=denominator != 0)
    return quotients
