"""Metrics of regression and of similarities, equal to scipy's to the last bit.

The operations and their order are those of `scipy.stats.pearsonr` and `spearmanr`. The correlation
with a constant is undefined and counts as 0, the chance level.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.names import score_meaning
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun

Numbers = NDArray[np.float64]


def pearson(true: Numbers, predicted: Numbers) -> float:
    """Compute Pearson's correlation of two arrays, float64 `[examples]`, in [-1, 1].

    The result is 0 if one of the arrays is constant.
    """
    if _is_constant(true) or _is_constant(predicted):
        return 0.0
    cosine = np.dot(_center_and_scale(true), _center_and_scale(predicted))
    correlation = np.clip(cosine, -1.0, 1.0)
    if len(true) == 2:  # two points lie on a line, so the result is -1 or 1
        correlation = np.round(correlation)
    return float(correlation)


def _is_constant(values: Numbers) -> bool:
    # Deviations from the mean are not compared with 0: for a constant, they may differ by rounding.
    return bool((values == values[:1]).all())


def _center_and_scale(values: Numbers) -> Numbers:
    """Subtract the mean, and scale the vector of differences to length 1."""
    deviations = values - values.mean()
    largest = np.abs(deviations).max()  # keeps the squares within the range of float64
    # Only with `axis` does `norm` add the squares as scipy does.
    return deviations / (largest * np.linalg.norm(deviations / largest, axis=-1))


def spearman(true: Numbers, predicted: Numbers) -> float:
    """Compute Spearman's rank correlation (Spearman 1904), in [-1, 1].

    Both arrays are float64 `[examples]`; ties share their mean rank. The result is 0 if one of the
    arrays is constant.
    """
    if _is_constant(true) or _is_constant(predicted):
        return 0.0
    table: Numbers = np.corrcoef(np.stack([ranks(true), ranks(predicted)]))
    return float(table[1, 0])


def ranks(values: Numbers) -> Numbers:
    """Rank values from 1 in rising order; ties share their mean rank.

    Values and ranks are float64 `[examples]`.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    # Equal values are a group. If they were counted one after another, the last one of each group
    # would have the rank in `last_ranks`.
    _, group_of_value, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    mean_ranks = last_ranks - (counts - 1) / 2
    return mean_ranks[group_of_value.reshape(-1)]


def rmse(true: Numbers, predicted: Numbers) -> float:
    """Compute the root mean squared error, in the unit of the values, float64 `[examples]`."""
    differences = predicted - true
    # Scaling by a power of two is exact and keeps the squares within the range of fp64: 2**exponent
    # is above the largest difference.
    _, exponent = np.frexp(np.abs(differences).max())
    squares = np.square(np.ldexp(differences, -exponent))
    return float(np.ldexp(np.sqrt(np.mean(squares)), exponent))


@dataclass(frozen=True)
class NumberReport(Report, ReadingCounts):
    """Scores of predicted numbers; `rmse` is in their unit, correlations are from -1 to 1."""

    pearson: float
    spearman: float
    rmse: float
    num_texts: int

    @classmethod
    def of(cls, true: Numbers, predicted: Numbers, **counts: Any) -> Self:
        """Compute the scores of predicted numbers; both arrays are float64 `[texts]`.

        `counts` are the fields of `ReadingCounts`.
        """
        return cls(
            pearson=pearson(true, predicted),
            spearman=spearman(true, predicted),
            rmse=rmse(true, predicted),
            num_texts=len(true),
            **counts,
        )

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, and remarks."""
        examples = count_noun(self.num_texts, self.noun)
        return [
            ScoreLine("Pearson", self.pearson, score_meaning("pearson", examples)),
            ScoreLine("Spearman", self.spearman, score_meaning("spearman")),
            ScoreLine("RMSE", self.rmse, score_meaning("rmse")),
            *self.notes(lacking="text or number"),
        ]


@dataclass(frozen=True)
class SimilarityReport(Report, ReadingCounts):
    """Comparison of the cosines of pairs of texts with the pairs' gold scores.

    `spearman` and `pearson` are correlations, from -1 to 1. `accuracy` and `f1`, 0 to 1, are given
    if all gold scores are 0 or 1; a cosine of 0.5 or more then counts as a predicted 1.
    """

    spearman: float
    pearson: float
    num_pairs: int
    accuracy: float | None
    f1: float | None

    @classmethod
    def of(cls, scores: Numbers, cosines: Numbers, **counts: Any) -> Self:
        """Compare gold `scores` with `cosines`; both arrays are float64 `[pairs]`.

        `counts` are the fields of `ReadingCounts`.
        """
        true, predicted = scores == 1, cosines >= 0.5  # for scores that are 0 or 1
        is_binary = np.isin(scores, (0, 1)).all()
        f1 = 2 * (true & predicted).sum() / max((true.sum() + predicted.sum()), 1)
        return cls(
            spearman=spearman(scores, cosines),
            pearson=pearson(scores, cosines),
            num_pairs=len(scores),
            accuracy=float(np.mean(true == predicted)) if is_binary else None,
            f1=float(f1) if is_binary else None,
            **counts,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not None."""
        return {name: value for name, value in super().to_json().items() if value is not None}

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, and remarks."""
        cosines = count_noun(self.num_pairs, "cosine")
        order = f"correlation of the order of the {cosines} with that of the scores"
        contents: list[ScoreLine | Table | str] = [
            ScoreLine("Spearman", self.spearman, order),
            ScoreLine("Pearson", self.pearson, "correlation with the scores themselves"),
        ]
        if self.accuracy is not None and self.f1 is not None:
            contents += [
                ScoreLine("Accuracy", self.accuracy, "a cosine of 0.5 or more counts as 1"),
                ScoreLine("F1", self.f1, "of the pairs whose score is 1"),
            ]
        return [*contents, *self.notes(lacking="texts or score")]
