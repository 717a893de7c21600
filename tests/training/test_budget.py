"""The budget: shares of steps or seconds, and what is due on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.errors import as_flags
from bertsmith.training.budget import EVALUATION_LIMIT, MAX_EVAL_ROWS, MAX_TIMES, EvaluationPlan


@given(st.floats(0.1, 1e5), st.floats(1e-5, 10))
def test_evaluations_take_a_twentieth_of_the_seconds(seconds, row):
    plan = EvaluationPlan.of_seconds(seconds, row)
    assert 1 <= plan.rows <= MAX_EVAL_ROWS and 1 <= plan.times <= MAX_TIMES
    spent = (1 + plan.times) * plan.rows * row
    assert spent <= EVALUATION_LIMIT * seconds or (plan.rows, plan.times) == (1, 1)
    assert (plan == EvaluationPlan(MAX_EVAL_ROWS, MAX_TIMES)) == (plan.describe() == "")


def test_a_long_run_measures_all_rows_each_time_and_a_short_one_few():
    assert EvaluationPlan.of_steps(1000, 64) == EvaluationPlan(MAX_EVAL_ROWS, MAX_TIMES)
    assert EvaluationPlan.of_steps(50, 8) == EvaluationPlan(30, 1)
    assert EvaluationPlan.of_seconds(900, 0.001) == EvaluationPlan(MAX_EVAL_ROWS, MAX_TIMES)
    assert EvaluationPlan.of_seconds(60, 0.02) == EvaluationPlan(60, 1)


def test_the_note_of_a_short_run_counts_the_rows_that_there_are():
    plan = EvaluationPlan(60, 1)
    assert "evaluated on 60 held-out rows, 2 times" in plan.describe()
    assert "512 for more" in as_flags(plan.describe())
    assert "60 held-out rows, 2 times" in plan.describe(97)
    assert "--eval-rows 97 for more" in as_flags(plan.describe(97))
    assert plan.describe(3) == "evaluated on 3 held-out rows, 2 times, since the run is short"
    assert "on 1 held-out row, 2 times" in plan.describe(1)
    assert EvaluationPlan(60, MAX_TIMES).describe(3) == ""  # all rows, as often as in a long run
    assert plan.describe(0) == ""
    assert plan.describe(3, every=5) == ""  # all rows, as often as the user chose
    assert EvaluationPlan(60, 10, is_limited=False).describe() == ""  # as the user chose


@pytest.mark.parametrize(("steps", "every", "times"), [
    (24, None, "3 times"), (25, None, "4 times"), (25, 5, "6 times"), (25, 30, "2 times"),
    (None, None, "3 times"), (None, 5, "every 5 steps"), (None, 1, "after every step"),
])  # fmt: skip
def test_the_note_of_a_short_run_counts_its_evaluations(steps, every, times):
    assert f"60 held-out rows, {times}, since" in EvaluationPlan(60, 2).describe(97, steps, every)
