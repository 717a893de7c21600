"""What is larger than noise: Student's distribution and the tests equal scipy's."""

import numpy as np
import pytest
from scipy import stats

from bertsmith.metrics.differences import Difference, differences, t_quantile, t_share


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 7, 11, 12, 29, 30, 101])
def test_student_equals_scipy(freedom):
    for t in (0.0, 0.1, 0.7, 1.3, 2.9, 7.1, 41.0):
        expected = 1 - 2 * stats.t.sf(t, freedom)
        assert t_share(t, freedom) == pytest.approx(expected, abs=1e-13)
    for share in (0.0, 0.5, 0.95, 0.99, 0.9975):
        expected = stats.t.ppf((1 + share) / 2, freedom)
        assert t_quantile(share, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_of_several_the_noise_is_that_of_all():
    """Against the analysis of variance written out as a regression on recipes and seeds."""
    values = np.random.default_rng(1).normal(size=(4, 3)) + np.arange(3) * 5
    recipe, seed = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    columns = [np.ones(12), *(recipe == r for r in (1, 2, 3)), *(seed == s for s in (1, 2))]
    design = np.stack(columns, axis=1).astype(float)
    weights, (squares,), _, _ = np.linalg.lstsq(design, values.ravel(), rcond=None)
    covariance = squares / 6 * np.linalg.inv(design.T @ design)
    for place, found in enumerate(differences(values), start=1):
        error = np.sqrt(covariance[place, place])
        assert found.mean == pytest.approx(weights[place])
        assert found.high == pytest.approx(
            weights[place] + error * stats.t.ppf(1 - 0.05 / 3 / 2, 6)
        )
        p = min(1, 3 * 2 * stats.t.sf(abs(weights[place]) / error, 6))
        assert found.p == pytest.approx(p)
        assert found.is_clear == (p < 0.05)


def test_without_spread_nothing_is_known_of_noise():
    # Three thirds do not add up to one: what is left over is rounding, no noise.
    for first in (1.0, 1 / 3):
        (same, other) = differences(np.array([[first, 2.0], [first, 2.0], [first + 1, 3.0]]))
        assert (same, other) == (Difference(pytest.approx(0)), Difference(pytest.approx(1)))
        assert not other.is_clear
    (single,) = differences(np.array([[1.0], [3.0]]))
    assert single == Difference(2.0)
    assert not single.is_clear
