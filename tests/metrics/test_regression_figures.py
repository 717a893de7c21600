"""Correlations equal scipy's on any numbers, ties included."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.metrics.regression import pearson, rmse, spearman

# Quarters, so that there are ties and a difference is never lost in rounding.
COLUMNS = st.lists(
    st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=2, max_size=60
).map(lambda pairs: np.array(pairs).T / 4)


@given(COLUMNS)
def test_correlations_equal_scipys(columns):
    true, predicted = columns
    if np.ptp(true) == 0 or np.ptp(predicted) == 0:
        assert pearson(true, predicted) == spearman(true, predicted) == 0.0
        return
    assert pearson(true, predicted) == scipy.stats.pearsonr(true, predicted).statistic
    assert spearman(true, predicted) == scipy.stats.spearmanr(true, predicted).statistic


@pytest.mark.parametrize("unit", [1.0, 1e150, 1e300, 1e-200])
def test_correlations_are_scipys_to_the_last_bit_in_any_unit(unit):
    generator = np.random.default_rng(0)
    for length in [2, 3, *range(5, 400, 17), 4001]:
        true, noise = generator.normal(size=(2, length))
        for predicted in (noise, true, true + noise / 100, np.round(noise), -np.sort(true)):
            right, found = true * unit, predicted * unit
            if np.ptp(found) == 0:
                continue
            assert pearson(right, found) == scipy.stats.pearsonr(right, found).statistic
            assert spearman(right, found) == scipy.stats.spearmanr(right, found).statistic


def test_a_constant_far_from_zero_has_no_correlation():
    assert pearson(np.full(7, 0.1) * 3, np.arange(7.0)) == 0.0
    assert spearman(np.arange(7.0), np.full(7, 1e9)) == 0.0


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])  # whose squares fp64 does not hold
def test_the_error_has_the_unit_of_the_numbers(unit):
    true, predicted = unit * np.array([1.0, 2.0]), unit * np.array([4.0, 6.0])
    assert rmse(true, predicted) / unit == pytest.approx(np.sqrt((9 + 16) / 2))
    assert rmse(true, true) == 0.0
