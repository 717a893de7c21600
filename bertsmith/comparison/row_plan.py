"""Numbers of held-out rows of a comparison: fewer for a short budget, and equal for all recipes.

A run is evaluated on eval rows of its own, as its recipe draws them, and on common rows, which are
the same for all recipes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.training.budget import (
    EVALUATION_LIMIT,
    MAX_EVAL_ROWS,
    MAX_TIMES,
    STEP_COST,
    EvaluationPlan,
)
from bertsmith.training.settings import TrainingSettings

FINAL_ROWS = 4096
"""Largest number of common rows of each kind on which finished models are measured."""
MIN_FINAL_ROWS = 256
"""Smallest number of common rows of each kind on which finished models are measured. With fewer,
the noise would hide the differences between recipes."""
KINDS_OF_ROWS = 2
"""Number of kinds of rows in each evaluation. During training these are the run's own eval rows and
the common rows; at the end they are common rows of one segment and of two. A comparison with other
systems also measures gaps in as many rows, for which no time is planned."""
ROWS_A_MINUTE = 2048
"""Number of final rows for each minute, if the budget is in minutes and the steps are unknown."""
FINAL_PER_EVAL_ROW = 4
"""Number of final rows for each row of an evaluation during training, if the budget is in
minutes."""


@dataclass(frozen=True)
class RowPlan:
    """Rows and number of evaluations during training, and rows for the finished models."""

    evaluations: EvaluationPlan
    final_rows: int


def plan_rows(trainings: Sequence[TrainingSettings]) -> RowPlan:
    """Plan the evaluations of all trainings by the shortest one.

    Args:
        trainings: either all have `steps`, or all have `minutes`.
    """
    if any(training.steps is None for training in trainings):
        minutes = min(training.minutes or 0.0 for training in trainings)
        final_rows = _bound_final_rows(ROWS_A_MINUTE * minutes)
        eval_rows = min(MAX_EVAL_ROWS, final_rows // FINAL_PER_EVAL_ROW)
        return RowPlan(EvaluationPlan(eval_rows, MAX_TIMES), final_rows)
    trained_rows = min((training.steps or 1) * training.batch_size for training in trainings)
    # Each kind of rows gets an equal share of the time for evaluations. So each is planned as for a
    # run that trains on this share of the rows, one in each step.
    evaluations = EvaluationPlan.of_steps(max(1, trained_rows // KINDS_OF_ROWS), batch_size=1)
    # Measuring the finished models may take as long as the evaluations: `EVALUATION_LIMIT` of the
    # time. In the time of training on a row, `STEP_COST` rows are evaluated.
    affordable = EVALUATION_LIMIT * STEP_COST * trained_rows / KINDS_OF_ROWS
    return RowPlan(evaluations, _bound_final_rows(affordable))


def _bound_final_rows(rows: float) -> int:
    return max(MIN_FINAL_ROWS, min(FINAL_ROWS, int(rows)))
