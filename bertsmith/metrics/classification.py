"""Scores for classification: integer labels and predictions in, figures out.

Everything follows from the confusion matrix, so it is counted once and passed around. The
figures equal scikit-learn's to the last digit: each is computed in float64 in the same order.
A ratio with an empty denominator (a class never predicted, or never present) counts as 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.regression import ranks

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Figures per class, each an array of shape `[num_classes]`; `support` counts true labels."""

    precision: Scores
    recall: Scores
    f1: Scores
    support: Counts


def confusion_matrix(labels: Counts, predictions: Counts, num_classes: int) -> Counts:
    """Count pairs of true label (row) and predicted label (column), int64 `[classes, classes]`.

    >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    cells = np.asarray(labels, dtype=np.int64) * num_classes + predictions
    counts = np.bincount(cells, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).astype(np.int64)


def accuracy(confusion: Counts) -> float:
    """The share of predictions that are right."""
    return float(np.trace(confusion) / confusion.sum())


def class_scores(confusion: Counts) -> ClassScores:
    """Precision, recall, F1 and support of every class."""
    correct = np.diagonal(confusion)
    predicted = confusion.sum(axis=0)
    support = confusion.sum(axis=1)
    return ClassScores(
        precision=ratio(correct, predicted),
        recall=ratio(correct, support),
        f1=ratio(2.0 * correct, support + predicted),
        support=support,
    )


def macro_f1(confusion: Counts) -> float:
    """The mean F1 over the classes that occur, as true label or as prediction.

    A class the model knows but the data never mention has no F1, and would only dilute the mean.
    """
    occurs = (confusion.sum(axis=0) + confusion.sum(axis=1)) > 0
    return float(np.average(class_scores(confusion).f1[occurs]))


def micro_f1(confusion: Counts) -> float:
    """F1 over all decisions pooled; with one label per text this is the accuracy."""
    correct = np.trace(confusion)
    return float(2.0 * correct / (2.0 * confusion.sum()))


def matthews_correlation(confusion: Counts) -> float:
    """The correlation of labels and predictions, in [-1, 1]; 0 is what guessing gets.

    For several classes this is R_K (Gorodkin, 2004, "Comparing two K-category assignments by a
    K-category correlation coefficient", eq. 8); for two it is Matthews' phi. A side with only
    one class has no variance, and the result is then 0.
    """
    true = confusion.sum(axis=1, dtype=np.float64)
    predicted = confusion.sum(axis=0, dtype=np.float64)
    total = predicted.sum()
    covariance = np.trace(confusion, dtype=np.float64) * total - np.dot(true, predicted)
    variances = (total**2 - np.dot(predicted, predicted)) * (total**2 - np.dot(true, true))
    return 0.0 if variances == 0 else float(covariance / np.sqrt(variances))


def area_under_curve(labels: Counts, scores: Scores) -> float:
    """How often one of class 1 scores higher than one of class 0 (ROC AUC), ties counting half;
    0 where a class does not occur.

    >>> area_under_curve(np.array([0, 1, 0, 1]), np.array([0.1, 0.3, 0.3, 0.9]))
    0.875
    """
    num_ones = int(np.sum(labels))
    num_pairs = num_ones * (len(labels) - num_ones)
    if num_pairs == 0:
        return 0.0
    wins = ranks(scores)[np.asarray(labels) == 1].sum() - num_ones * (num_ones + 1) / 2
    return float(wins / num_pairs)


def ratio(numerator: NDArray[np.generic], denominator: Counts) -> Scores:
    """Element-wise ratio in float64, 0 where the denominator is 0."""
    ratio = np.zeros(len(denominator), dtype=np.float64)
    np.divide(numerator, denominator, out=ratio, where=denominator != 0)
    return ratio
