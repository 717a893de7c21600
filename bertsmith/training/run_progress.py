"""Progress of several runs as a whole, which moves along within each run."""

from collections.abc import Mapping
from typing import Any

from bertsmith.system.progress import Bar
from bertsmith.training.recorder import Callback, Status


class RunProgress(Callback):
    """Move `bar` along with one run, whose work is `amount` of the bar's total."""

    def __init__(self, bar: Bar, amount: float) -> None:
        self._bar = bar
        self._before = bar.done
        self._amount = amount

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        self._bar.move(self._before + self._amount * status.progress)

    def end(self) -> None:
        self._bar.move(self._before + self._amount)
