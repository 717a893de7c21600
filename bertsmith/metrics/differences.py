"""Differences between recipes run with the same seeds, with confidence intervals.

A recipe is a set of settings by which models are trained. Seeds are blocks: an effect that a seed
has on all recipes alike is removed (randomized complete block design; Montgomery, Design and
Analysis of Experiments, section 4.1). The noise is assumed to be equal in all recipes and is
estimated from all of them, since a few seeds of one recipe are too few. With two recipes, this is
the paired t-test. Intervals are Bonferroni-corrected: the probability that any of them misses the
true difference is at most 5 %.
"""

import math
from dataclasses import dataclass

import numpy as np

ERROR_RATE = 0.05
"""Largest probability that any of the intervals misses the true difference."""
ROUNDING = 1e-12
"""Noise up to this fraction of the largest value counts as rounding of floats."""
BISECTIONS = 60
"""Number of halvings after which the ends of an interval are neighbouring floats."""


@dataclass(frozen=True)
class Difference:
    """Difference between the mean of a recipe and the mean of the first recipe.

    `low` and `high` are the 95 % confidence interval, for all recipes at once; `p` is the p-value
    times the number of comparisons, at most 1. All three are None if the noise is unknown: with a
    single seed, or if every seed gives the same differences.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds the noise: its interval does not contain 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def differences(values: np.ndarray) -> list[Difference]:
    """Compare every recipe with the first, by their scores of the same seeds.

    `values` is float `[recipes, seeds]`, of at least two recipes and without missing values. The
    result has a difference for each recipe but the first.

    The effect of a seed on all recipes does not count as noise. The error of a difference is
    estimated from all recipes at once, with (recipes - 1) * (seeds - 1) degrees of freedom, and the
    level of 5 % is divided by the number of comparisons (Bonferroni).

    >>> gain = differences(np.array([[0.5, 0.6, 0.7], [0.6, 0.7, 0.83]]))[0]
    >>> round(gain.mean, 2), round(gain.low, 2), round(gain.high, 2), gain.is_clear
    (0.11, 0.07, 0.15, True)
    """
    num_recipes, num_seeds = values.shape
    means = values.mean(axis=1)
    mean_differences = [float(mean - means[0]) for mean in means[1:]]
    num_comparisons = len(mean_differences)
    if num_seeds < 2:
        return [Difference(mean) for mean in mean_differences]
    degrees = (num_recipes - 1) * (num_seeds - 1)
    residuals = values - means[:, None] - values.mean(axis=0) + values.mean()
    variance = float((residuals**2).sum()) / degrees  # of a single run
    error = math.sqrt(2 * variance / num_seeds)  # of the difference of two means
    if error <= ROUNDING * np.abs(values).max():  # there is no noise to compare with
        return [Difference(mean) for mean in mean_differences]
    margin = error * t_quantile(1 - ERROR_RATE / num_comparisons, degrees)
    result = []
    for mean in mean_differences:
        p_alone = max(0.0, 1 - t_share(abs(mean) / error, degrees))
        p = min(1.0, num_comparisons * p_alone)
        result.append(Difference(mean, low=mean - margin, high=mean + margin, p=p))
    return result


def t_share(t: float, degrees: int) -> float:
    """Compute the probability of Student's t distribution between -t and t.

    `degrees` are the degrees of freedom, a whole number, for which the probability is a finite
    series (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    angle = math.atan(t / math.sqrt(degrees))
    is_odd = degrees % 2
    factor, total = 1.0, 0.0
    for power in range(is_odd, degrees - 1, 2):
        if power > 1:
            factor *= (power - 1) / power
        total += factor * math.cos(angle) ** power
    if is_odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def t_quantile(share: float, degrees: int) -> float:
    """Find the t at which `t_share` is `share`, by bisection.

    >>> round(t_quantile(0.95, 4), 4)
    2.7764
    """
    low, high = 0.0, 1.0
    while t_share(high, degrees) < share:  # until the interval holds the result
        low, high = high, 2 * high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if t_share(middle, degrees) < share:
            low = middle
        else:
            high = middle
    return high
