"""Numbers of held-out rows of a comparison: few for a short budget, and equal for all recipes."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.training.budget import EVALUATION_LIMIT, MAX_TIMES, STEP_COST, EvaluationPlan
from bertsmith.training.settings import TrainingSettings

FINAL_ROWS = 4096
MIN_FINAL_ROWS = 256
"""Smallest number of rows on which finished models are measured. With fewer, the noise would hide
the differences between recipes."""
KINDS_OF_ROWS = 2
"""Number of kinds of rows in each evaluation: during training the run's own rows and the common
rows, at the end common rows of one segment and of two."""
ROWS_A_MINUTE = 2048
"""Number of final rows for each minute, if the budget is in minutes and the steps are unknown."""


@dataclass(frozen=True)
class RowPlan:
    """Rows and number of evaluations during training, and rows for the finished models."""

    evaluations: EvaluationPlan
    final_rows: int


def plan_rows(trainings: Sequence[TrainingSettings]) -> RowPlan:
    """Plan the evaluations of trainings by the shortest one; all have `steps` or `minutes`."""
    if any(training.steps is None for training in trainings):
        minutes = min(training.minutes or 0.0 for training in trainings)
        final_rows = _within_bounds(ROWS_A_MINUTE * minutes)
        rows = max(MIN_FINAL_ROWS // 4, min(512, final_rows // 4))
        return RowPlan(EvaluationPlan(rows, MAX_TIMES), final_rows)
    trained = min((training.steps or 1) * training.batch_size for training in trainings)
    affordable = EVALUATION_LIMIT * STEP_COST * trained / KINDS_OF_ROWS
    return RowPlan(
        EvaluationPlan.of_steps(max(1, trained // KINDS_OF_ROWS), 1), _within_bounds(affordable)
    )


def _within_bounds(rows: float) -> int:
    return max(MIN_FINAL_ROWS, min(FINAL_ROWS, int(rows)))
