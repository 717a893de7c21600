"""The time budget of `--head auto --minutes …`: which heads can be compared and trained within it.

`--head auto` compares heads (ways to learn from the labels) by cross-validation, and then trains
the best one. A head is left out if the run would take longer than the budget.
"""

import time
from collections.abc import Mapping
from typing import Any

from bertsmith.training.callback import Callback, Status

SECONDS_TO_JUDGE = 1.0
"""Seconds of a training after which its length can be estimated from its progress."""


class OverBudget(Exception):  # noqa: N818 - it ends a comparison, and is no error
    """The comparison of a head would take longer than the budget.

    Args:
        minutes: estimated length of the whole run with this head.
    """

    def __init__(self, minutes: float) -> None:
        super().__init__(minutes)
        self.minutes = minutes


class HeadBudget:
    """The time that a comparison of heads and the training of the best one may take together.

    Args:
        minutes: the time; it begins with this call. None for no limit.
        num_folds: number of folds of the comparison.
    """

    def __init__(self, minutes: float | None, num_folds: int) -> None:
        self.minutes = minutes
        # A training of the comparison learns from all folds but one, the last training from all
        # folds. So the last training takes this many times as long.
        self._factor_of_last_training = num_folds / (num_folds - 1)
        self._began = time.perf_counter()
        self._longest_training = 0.0

    def note_training(self, seconds: float) -> None:
        """Note how long a training of a compared head takes, since that head may be the best."""
        self._longest_training = max(self._longest_training, seconds)

    def check(self, training_seconds: float, num_trainings: float) -> None:
        """Check that there is time for the rest of a comparison, and for the training after it.

        Args:
            training_seconds: length of a training of the head, and of predicting a fold if known.
            num_trainings: number of its trainings that the comparison still takes.

        Raises:
            OverBudget: the run would take longer than the budget.
        """
        longest = max(self._longest_training, training_seconds)
        remaining = num_trainings * training_seconds + self._factor_of_last_training * longest
        minutes = (time.perf_counter() - self._began + remaining) / 60
        if self.minutes is not None and minutes > self.minutes:
            raise OverBudget(minutes)


class BudgetWatch(Callback):
    """Ends the first training of a head early if the budget has no time for all its trainings.

    The training loop calls `on_step` after each step.

    Args:
        num_trainings: number of trainings of the head in the comparison, one for each fold.
        num_models: number of models that one training makes, one after the other; 1 except for an
            average.
    """

    def __init__(self, budget: HeadBudget, num_trainings: int, num_models: int) -> None:
        self._budget = budget
        self._num_trainings = num_trainings
        self._num_models = num_models
        self._began = time.perf_counter()

    def on_step(self, entry: Mapping[str, Any], status: Status) -> None:
        """End the training if the comparison would take too long.

        The training ends by an exception. So nothing else is trained, saved or scored for the head
        that is left out: neither the other models of an average nor its linear head.

        Raises:
            OverBudget: the run would take longer than the budget.
        """
        if status.elapsed_seconds < SECONDS_TO_JUDGE or status.progress == 0:
            return
        training_seconds = self._num_models * status.elapsed_seconds / status.progress
        # At most one training is done, however long the model took to load.
        num_done = min((time.perf_counter() - self._began) / training_seconds, 1.0)
        self._budget.check(training_seconds, self._num_trainings - num_done)
