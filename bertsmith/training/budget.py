"""How much of a run is done: steps or seconds go in, a share of the whole comes out."""

from dataclasses import dataclass


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
        """The share, 0 to 1, that is done after `step` steps and `elapsed` seconds."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / max(1e-9, self.seconds - self.reserve))

    def is_done(self, step: int, elapsed: float, step_seconds: float) -> bool:
        """Whether no further step of about `step_seconds` fits in."""
        if self.steps is not None:
            return step >= self.steps
        assert self.seconds is not None
        return step > 0 and elapsed + step_seconds / 2 >= self.seconds - self.reserve


def is_due(before: float, after: float, interval: float) -> bool:
    """Whether a multiple of `interval` was reached on the way from `before` to `after`.

    >>> [is_due(step - 1, step, 3) for step in (1, 2, 3, 4)]
    [False, False, True, False]
    """
    return before // interval < after // interval
