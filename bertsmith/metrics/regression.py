"""Metrics of regression, equal to scipy's to the last bit.

The operations and their order are those of `scipy.stats.pearsonr` and `spearmanr`. The correlation
with a constant is undefined and counts as 0, the chance level.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def pearson(true: Numbers, predicted: Numbers) -> float:
    """Compute Pearson's correlation of two arrays `[examples]`, in [-1, 1]."""
    if _is_constant(true) or _is_constant(predicted):
        return 0.0
    found = np.clip(np.dot(_of_length_1(true), _of_length_1(predicted)), -1.0, 1.0)
    return float(np.round(found) if len(true) == 2 else found)  # two points lie on a line


def _is_constant(values: Numbers) -> bool:
    # Deviations from the mean do not tell: rounding leaves something of a constant.
    return bool((values == values[:1]).all())


def _of_length_1(values: Numbers) -> Numbers:
    distances = values - values.mean()
    largest = np.abs(distances).max()  # without it, squares above 1e308 or below 1e-308 are lost
    # Only with `axis` does `norm` add the squares as scipy does.
    scaled: Numbers = distances / (largest * np.linalg.norm(distances / largest, axis=-1))
    return scaled


def spearman(true: Numbers, predicted: Numbers) -> float:
    """Compute Spearman's rank correlation (Spearman 1904); ties share their mean rank."""
    if _is_constant(true) or _is_constant(predicted):
        return 0.0
    table: Numbers = np.corrcoef(np.stack([ranks(true), ranks(predicted)]))
    return float(table[1, 0])


def ranks(values: Numbers) -> Numbers:
    """Rank values from 1 in rising order; ties share their mean rank.

    Float64 `[examples]`.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Numbers = (last - (counts - 1) / 2)[groups.reshape(-1)]
    return means


def rmse(true: Numbers, predicted: Numbers) -> float:
    """Compute the root mean squared error, in the unit of the values."""
    differences = predicted - true
    # Scaling by a power of two costs no digit and keeps the squares within fp64.
    _, exponent = np.frexp(np.abs(differences).max())
    squares = np.square(np.ldexp(differences, -exponent))
    return float(np.ldexp(np.sqrt(np.mean(squares)), exponent))
