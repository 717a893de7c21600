"""Scores for numbers: true and predicted values in, figures out, equal to scipy's.

A correlation with something constant does not exist; it counts as 0, what guessing gets.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def pearson(true: Numbers, predicted: Numbers) -> float:
    """The correlation of two arrays `[examples]`, in [-1, 1]."""
    x, y = (values - values.mean() for values in (true, predicted))
    lengths = np.linalg.norm(x), np.linalg.norm(y)
    # Rounding leaves something of a constant; scipy warns below the same limit.
    for length, values in zip(lengths, (true, predicted), strict=True):
        if length <= 1e-13 * abs(values.mean()):
            return 0.0
    return float(np.clip(np.dot(x / lengths[0], y / lengths[1]), -1.0, 1.0))


def spearman(true: Numbers, predicted: Numbers) -> float:
    """The correlation of the ranks (Spearman 1904); equal values share their mean rank."""
    return pearson(ranks(true), ranks(predicted))


def ranks(values: Numbers) -> Numbers:
    """Places from 1 in rising order, float64 `[examples]`; equal values have the mean of theirs.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Numbers = (last - (counts - 1) / 2)[groups.reshape(-1)]
    return means


def rmse(true: Numbers, predicted: Numbers) -> float:
    """The square root of the mean squared difference, in the unit of the values."""
    return float(np.sqrt(np.mean(np.square(predicted - true))))
