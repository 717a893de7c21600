"""Held-out rows of a comparison: as few as a short budget can pay for, equal for all recipes."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.pretraining.job import PretrainJob
from bertsmith.training.budget import EVALUATION_LIMIT, MAX_TIMES, STEP_COST, EvaluationPlan

FINAL_ROWS = 4096
FEWEST_FINAL_ROWS = 256
"""Fewer rows could not tell two recipes apart."""
KINDS_OF_ROWS = 2
"""Each evaluation has the run's own rows and the common ones; at the end there are common rows of
one segment and of two."""
ROWS_A_MINUTE = 2048
"""Final rows for each minute of a budget in minutes, whose number of steps is not known before."""


@dataclass(frozen=True)
class RowPlan:
    """Rows and number of evaluations while training, and rows of the finished models."""

    evaluations: EvaluationPlan
    final_rows: int


def plan_rows(jobs: Sequence[PretrainJob]) -> RowPlan:
    """Plan the evaluations of jobs that have their length, by the shortest of them."""
    if any(job.training.steps is None for job in jobs):
        minutes = min(job.training.minutes or 0.0 for job in jobs)
        final_rows = _within_bounds(ROWS_A_MINUTE * minutes)
        rows = max(FEWEST_FINAL_ROWS // 4, min(512, final_rows // 4))
        return RowPlan(EvaluationPlan(rows, MAX_TIMES), final_rows)
    trained = min((job.training.steps or 1) * job.training.batch_size for job in jobs)
    affordable = EVALUATION_LIMIT * STEP_COST * trained / KINDS_OF_ROWS
    return RowPlan(
        EvaluationPlan.of_steps(max(1, trained // KINDS_OF_ROWS), 1), _within_bounds(affordable)
    )


def _within_bounds(rows: float) -> int:
    return max(FEWEST_FINAL_ROWS, min(FINAL_ROWS, int(rows)))
