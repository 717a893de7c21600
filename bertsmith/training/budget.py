"""Budget of a run in steps or seconds, its progress, and the evaluations that fit into it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertsmith.errors import option
from bertsmith.system.counts import count_noun


@dataclass
class Budget:
    """The length of a run in steps or in seconds; exactly one of them is set.

    With seconds, training ends `reserve` seconds earlier, to leave time for the last evaluation.
    The progress is 1 at that earlier end.
    """

    steps: int | None
    seconds: float | None
    reserve: float = 0.0

    def progress(self, step: float, elapsed: float) -> float:
        """Return the share of the run, 0 to 1, that is done after `step` steps or some seconds."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / max(1e-9, self.seconds - self.reserve))

    def is_done(self, step: int, elapsed: float, step_seconds: float) -> bool:
        """Return whether the budget has no room for another step of about `step_seconds`.

        A budget in seconds has room for a step if half of the step fits, and always for the first.
        """
        if self.steps is not None:
            return step >= self.steps
        assert self.seconds is not None
        return step > 0 and elapsed + step_seconds / 2 >= self.seconds - self.reserve

    def progress_at_middle(self, step: int, began: float, now: float) -> float:
        """Return the progress at the middle of step `step`, at which the learning rate is not zero.

        `began` and `now` are the elapsed seconds at the step's start and end.
        """
        if self.steps is not None:
            return self.progress(step - 0.5, now)
        # The first step is made even if an evaluation has used all of the time.
        before = 0.0 if step == 1 else self.progress(step, began)
        return (before + self.progress(step, now)) / 2


EVALUATION_LIMIT = 0.05
"""Largest share of a run's time for evaluations, if the user has set no number of eval rows."""
PLANNED_SHARE = 0.04
"""The share that is planned: below the limit, since evaluations vary in time."""
MAX_EVAL_ROWS = 512
"""Most rows of an evaluation, if the user has set no number."""
MIN_ROWS = 64
"""Fewest rows of an evaluation, if evaluating less often makes that possible."""
MIN_ROWS_BY_STEPS = 8
"""Fewest rows of an evaluation in any run by steps."""
MAX_TIMES = 10
"""Most evaluations in a run, without the one before the first step."""
STEP_COST = 3
"""Cost of training on a row, in evaluations of a row: gradients take twice as long as the loss."""


@dataclass(frozen=True)
class EvaluationPlan:
    """The number of eval rows, and the number of evaluations."""

    rows: int
    times: int
    """Number of evaluations without the one before the first step."""
    is_limited: bool = True
    """Whether a run in minutes skips evaluations that would exceed `EVALUATION_LIMIT`. False if the
    user gave the number of rows."""

    @classmethod
    def of_steps(cls, steps: int, batch_size: int) -> "EvaluationPlan":
        """Plan for a run of `steps` steps of `batch_size` rows; nothing is timed."""
        total_rows = EVALUATION_LIMIT * STEP_COST * steps * batch_size
        return cls._affordable(total_rows, min_rows=MIN_ROWS_BY_STEPS)

    @classmethod
    def of_seconds(cls, seconds: float, seconds_per_row: float) -> "EvaluationPlan":
        """Plan for a run of `seconds`, if evaluating a row takes `seconds_per_row`."""
        total_rows = PLANNED_SHARE * seconds / max(1e-9, seconds_per_row)
        return cls._affordable(total_rows, min_rows=1)

    @classmethod
    def restore(cls, entry: Mapping[str, Any]) -> "EvaluationPlan":
        """Restore the plan of a run from `config.evaluations` in its run.json.

        Raises:
            CheckpointError: a part is missing, so run.json is damaged.
        """
        return cls(entry["rows"], entry["times"], entry.get("is_limited", True))

    @classmethod
    def _affordable(cls, total_rows: float, min_rows: int) -> "EvaluationPlan":
        """Divide `total_rows` among the first evaluation and up to `MAX_TIMES` later ones.

        There are fewer evaluations if each would otherwise have fewer than `MIN_ROWS` rows. Each
        has at least `min_rows`.
        """
        times = max(1, min(MAX_TIMES, int(total_rows / MIN_ROWS) - 1))
        rows = min(MAX_EVAL_ROWS, int(total_rows / (1 + times)))
        return cls(max(min_rows, rows), times)

    def interval(self, steps: int) -> int:
        """Return the number of steps between two of `times` evaluations in a run of `steps`."""
        return max(1, round(steps / self.times))

    def num_evaluations(self, steps: int, every: int | None) -> int:
        """Count the evaluations of a run of `steps`, the one before the first step included.

        There is one at the end, too. `every` is the interval in steps that the user set, or None.
        """
        return 1 + math.ceil(steps / (every or self.interval(steps)))

    def describe(
        self, num_held_out: int = MAX_EVAL_ROWS, steps: int | None = None, every: int | None = None
    ) -> str:
        """Describe the reduced evaluations of a short run; empty if they are not reduced.

        Args:
            num_held_out: the number of rows that can be evaluated.
            steps: the steps of the run; None for a run in minutes.
            every: the interval of evaluations in steps that the user set; None if none was set.
        """
        max_rows = min(num_held_out, MAX_EVAL_ROWS)
        has_all_rows = self.rows >= max_rows
        is_by_user = not self.is_limited
        has_all_times = every is not None or self.times == MAX_TIMES
        if is_by_user or max_rows == 0 or (has_all_rows and has_all_times):
            return ""
        advice = "" if has_all_rows else f" ({option('eval_rows', max_rows)} for more)"
        rows = count_noun(min(self.rows, max_rows), "held-out row")
        times = f"{1 + self.times} times"
        if steps is not None:
            times = f"{self.num_evaluations(steps, every)} times"
        elif every is not None:
            times = f"every {every} steps" if every > 1 else "after every step"
        return f"evaluated on {rows}, {times}, since the run is short{advice}"


def is_due(before: float, after: float, interval: float) -> bool:
    """Return whether a multiple of `interval` lies in `(before, after]`.

    >>> [is_due(step - 1, step, 3) for step in (1, 2, 3, 4)]
    [False, False, True, False]
    """
    return before // interval < after // interval
