"""The expected calibration error is the paper's formula, in portions too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.metrics.classification import NUM_BINS, Calibration


def error_by_the_formula(confidences, right):
    """Guo et al. 2017, eq. 2 and 3, bin by bin; bins are open below and closed above."""
    total = 0.0
    for number in range(NUM_BINS):
        low, high = number / NUM_BINS, (number + 1) / NUM_BINS
        inside = (confidences > low) & (confidences <= high)
        if number == 0:
            inside |= confidences == 0
        if inside.any():
            distance = abs(right[inside].mean() - confidences[inside].mean())
            total += inside.sum() / len(right) * distance
    return total


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 99))
def test_the_error_is_the_papers(count, cut, seed):
    rng = np.random.default_rng(seed)
    confidences, right = rng.random(count), (rng.random(count) < 0.6).astype(float)
    found = Calibration()
    found.add(confidences[:cut], right[:cut])
    found.add(confidences[cut:], right[cut:])
    assert found.error == pytest.approx(error_by_the_formula(confidences, right))
    assert found.num_predictions == count
    bins = found.bins()
    assert sum(each.count for each in bins) == count
    assert [each.confidence for each in bins] == sorted(each.confidence for each in bins)
