"""One progress bar for several runs, which also moves during each run."""

from collections.abc import Mapping
from typing import Any

from bertsmith.system.progress import Bar
from bertsmith.training.callback import Callback, Status


class RunProgress(Callback):
    """Moves `bar` by the progress of one run; the whole run is `amount` of the bar's total.

    The run begins at what the bar shows as done when this object is made.
    """

    def __init__(self, bar: Bar, amount: float) -> None:
        self._bar = bar
        self._before = bar.done
        self._amount = amount

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Move the bar to the run's progress; its new journal `entry` is not read."""
        self._bar.move(self._before + self._amount * status.progress)

    def end(self) -> None:
        """Move the bar to the end of the run, which may have stopped early."""
        self._bar.move(self._before + self._amount)
