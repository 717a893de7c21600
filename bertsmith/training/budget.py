"""Budget of a run in steps or seconds, and its progress."""

from dataclasses import dataclass

from bertsmith.errors import option


@dataclass
class Budget:
    """A number of steps, or of seconds; exactly one is given.

    In seconds, `reserve` is kept free at the end for the last evaluation: the run's learning rate
    reaches zero before it, and the whole ends on time.
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
        """Return whether no further step of about `step_seconds` fits in."""
        if self.steps is not None:
            return step >= self.steps
        assert self.seconds is not None
        return step > 0 and elapsed + step_seconds / 2 >= self.seconds - self.reserve

    def middle(self, step: int, began: float, now: float) -> float:
        """Return the share that is done at the middle of step `step`, never 0 and never 1.

        `began` and `now` are the seconds at its start and at its end.
        """
        if self.steps is not None:
            return self.progress(step - 0.5, now)
        # The first step is taken even where measuring took all of the time.
        before = 0.0 if step == 1 else self.progress(step, began)
        return (before + self.progress(step, now)) / 2


EVALUATION_LIMIT = 0.05
"""The share of a run that measuring on held-out rows may take where no number of rows was given."""
PLANNED_SHARE = 0.04
"""The share planned for, since no two evaluations take the same time."""
MAX_EVAL_ROWS = 512
MIN_ROWS = 64
"""Fewest rows of an evaluation; below it, evaluate less often."""
FEWEST_ROWS = 8
MAX_TIMES = 10
STEP_COST = 3
"""A row's gradients take twice as long as its losses."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Held-out rows of each evaluation, and how many there are after the first."""

    rows: int
    times: int
    is_limited: bool = True
    """Whether evaluations are left out for which a run in minutes has no time."""

    @classmethod
    def of_steps(cls, steps: int, batch_size: int) -> "EvaluationPlan":
        """Plan a run of so many steps; a function of these numbers alone."""
        return cls._affordable(EVALUATION_LIMIT * STEP_COST * steps * batch_size, FEWEST_ROWS)

    @classmethod
    def of_seconds(cls, seconds: float, seconds_per_row: float) -> "EvaluationPlan":
        """Plan a run of so many seconds, of which a row takes `seconds_per_row`."""
        return cls._affordable(PLANNED_SHARE * seconds / max(1e-9, seconds_per_row), 1)

    @classmethod
    def _affordable(cls, rows: float, at_least: int) -> "EvaluationPlan":
        times = max(1, min(MAX_TIMES, int(rows / MIN_ROWS) - 1))
        return cls(max(at_least, min(MAX_EVAL_ROWS, int(rows / (1 + times)))), times)

    def __str__(self) -> str:
        """Describe what is left out to save time, if anything."""
        if self == EvaluationPlan(MAX_EVAL_ROWS, MAX_TIMES):
            return ""
        return (
            f"evaluated on {self.rows} held-out rows, {1 + self.times} times, since the run is "
            f"short ({option('eval_rows', MAX_EVAL_ROWS)} for more)"
        )


def is_due(before: float, after: float, interval: float) -> bool:
    """Return whether a multiple of `interval` lies in `(before, after]`.

    >>> [is_due(step - 1, step, 3) for step in (1, 2, 3, 4)]
    [False, False, True, False]
    """
    return before // interval < after // interval
