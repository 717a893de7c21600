"""Budget of a run in steps or seconds, its progress, and the evaluations that fit into it."""

from dataclasses import dataclass

from bertsmith.errors import option
from bertsmith.system.counts import count_noun


@dataclass
class Budget:
    """A number of steps or of seconds; exactly one is set.

    With seconds, training ends `reserve` seconds earlier, to leave time for the last evaluation;
    the learning rate reaches zero then.
    """

    steps: int | None
    seconds: float | None
    reserve: float = 0.0

    def progress(self, step: float, elapsed: float) -> float:
        """Return the share, 0 to 1, done after `step` steps and `elapsed` seconds."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / max(1e-9, self.seconds - self.reserve))

    def is_done(self, step: int, elapsed: float, step_seconds: float) -> bool:
        """Return whether the budget has no room for another step of about `step_seconds`."""
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
MIN_ROWS = 64
"""Fewest rows of an evaluation, if evaluating less often makes that possible."""
MIN_ROWS_BY_STEPS = 8
"""Fewest rows of an evaluation in any run by steps."""
MAX_TIMES = 10
"""Most evaluations in a run, without the first."""
STEP_COST = 3
"""Cost of training on a row, in evaluations of a row: gradients take twice as long as the loss."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Number of eval rows, and number of evaluations after the first."""

    rows: int
    times: int
    is_limited: bool = True
    """Whether a run in minutes skips evaluations for which it has no time."""

    @classmethod
    def of_steps(cls, steps: int, batch_size: int) -> "EvaluationPlan":
        """Plan for a run of so many steps, by these numbers alone."""
        return cls._affordable(EVALUATION_LIMIT * STEP_COST * steps * batch_size, MIN_ROWS_BY_STEPS)

    @classmethod
    def of_seconds(cls, seconds: float, seconds_per_row: float) -> "EvaluationPlan":
        """Plan for a run of so many seconds, if evaluating a row takes `seconds_per_row`."""
        return cls._affordable(PLANNED_SHARE * seconds / max(1e-9, seconds_per_row), 1)

    @classmethod
    def _affordable(cls, rows: float, at_least: int) -> "EvaluationPlan":
        times = max(1, min(MAX_TIMES, int(rows / MIN_ROWS) - 1))
        return cls(max(at_least, min(MAX_EVAL_ROWS, int(rows / (1 + times)))), times)

    def describe(self, num_held_out: int = MAX_EVAL_ROWS) -> str:
        """Describe the reduced evaluations of a short run; empty if they are not reduced.

        Args:
            num_held_out: the number of rows that can be evaluated.
        """
        most = min(num_held_out, MAX_EVAL_ROWS)
        is_on_most = self.rows >= most
        is_by_user = not self.is_limited  # who gave the number of rows
        if is_by_user or most == 0 or (is_on_most and self.times == MAX_TIMES):
            return ""
        more = "" if is_on_most else f" ({option('eval_rows', most)} for more)"
        rows = count_noun(min(self.rows, most), "held-out row")
        return f"evaluated on {rows}, {1 + self.times} times, since the run is short{more}"


def is_due(before: float, after: float, interval: float) -> bool:
    """Return whether a multiple of `interval` lies in `(before, after]`.

    >>> [is_due(step - 1, step, 3) for step in (1, 2, 3, 4)]
    [False, False, True, False]
    """
    return before // interval < after // interval
