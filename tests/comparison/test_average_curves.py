"""Curves of a comparison: means over the seeds, of runs that were evaluated at different times."""

import pytest

from bertsmith.comparison.page import average_curves
from bertsmith.comparison.runs import EvalPoint


def curve_of(*runs):
    points = [[EvalPoint(tokens, tokens / 10, loss) for tokens, loss in run] for run in runs]
    return average_curves("a", 0, points, lambda point: point.tokens)


def test_the_mean_is_over_the_range_that_all_runs_have():
    curve = curve_of([(10, 4.0), (30, 2.0)], [(20, 5.0), (40, 3.0)])
    assert curve.style == "mean"
    assert curve.points[0] == pytest.approx([20, 4.0])
    assert curve.points[-1] == pytest.approx([30, 3.0])
    assert curve.band[0] == pytest.approx([20, 4.0 - 2**0.5, 4.0 + 2**0.5])


@pytest.mark.parametrize("runs", [
    [[(10, 4.0)]],
    [[(8, 5.0)], [(12, 3.0)]],
])  # fmt: skip
def test_one_evaluation_of_each_run_is_a_dot(runs):
    curve = curve_of(*runs)
    assert (curve.style, curve.points) == ("dots", [(10, 4.0)])
