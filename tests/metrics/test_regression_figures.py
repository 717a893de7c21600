"""Correlations equal scipy's on any numbers, ties included."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.metrics.regression import pearson, ranks, rmse, spearman

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
    assert pearson(true, predicted) == pytest.approx(
        scipy.stats.pearsonr(true, predicted).statistic, abs=1e-12
    )
    assert spearman(true, predicted) == pytest.approx(
        scipy.stats.spearmanr(true, predicted).statistic, abs=1e-12
    )


@given(COLUMNS)
def test_ranks_equal_scipys(columns):
    for values in columns:
        np.testing.assert_array_equal(ranks(values), scipy.stats.rankdata(values))


def test_a_constant_far_from_zero_has_no_correlation():
    assert pearson(np.full(7, 0.1) * 3, np.arange(7.0)) == 0.0
    assert spearman(np.arange(7.0), np.full(7, 1e9)) == 0.0


def test_the_error_has_the_unit_of_the_numbers():
    assert rmse(np.array([1.0, 2.0]), np.array([4.0, 6.0])) == np.sqrt((9 + 16) / 2)
