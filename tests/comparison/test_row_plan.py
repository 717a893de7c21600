"""Evaluations of a comparison take a twentieth of it, and its time is told before."""

from pathlib import Path

import pytest
from tiny_runs import small_job

from bertsmith.comparison.bert_recipe import BertRecipe
from bertsmith.comparison.forecast import describe_duration
from bertsmith.comparison.row_plan import FINAL_ROWS, MIN_FINAL_ROWS, plan_rows
from bertsmith.training.budget import MAX_EVAL_ROWS, MAX_TIMES, EvaluationPlan


def training_of(**training):
    job = small_job(Path("corpus"), **{"batch_size": 64, "eval_rows": None, **training})
    return job.training


@pytest.mark.parametrize("steps", [20, 100, 400])
def test_a_short_budget_is_not_spent_on_evaluations(steps):
    plan = plan_rows([training_of(steps=steps), training_of(steps=2 * steps)])
    rows = 2 * plan.evaluations.rows * (1 + plan.evaluations.times)
    assert rows <= 0.05 * 3 * steps * 64 + 32
    assert plan.final_rows == max(MIN_FINAL_ROWS, int(0.05 * 3 * steps * 64 / 2))


def test_a_long_budget_is_measured_as_before():
    for length in ({"steps": 1300}, {"minutes": 2.0}):
        plan = plan_rows([training_of(**length)])
        assert plan.evaluations == EvaluationPlan(MAX_EVAL_ROWS, MAX_TIMES)
        assert plan.final_rows == FINAL_ROWS
    assert plan_rows([training_of(minutes=0.1)]).final_rows == MIN_FINAL_ROWS


def test_the_time_is_told_before_the_first_run(corpus_dir):
    recipes = [BertRecipe(name, small_job(corpus_dir, minutes=2.0)) for name in ("a", "b", "a")]
    assert "3 runs to go: about 6.0 minutes" in describe_duration(recipes, 0)
    assert "fine-tuning on 2 tasks each" in describe_duration(recipes, 2)
    timed = describe_duration([BertRecipe("a", small_job(corpus_dir, steps=4))], 1)
    assert "1 run to go: about " in timed and "on 1 task each" in timed
