"""The base class of trackers, services that receive a run's metrics, as its journal does.

A journal entry has the metrics of one step, or of one evaluation (eval).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from bertsmith.training.journal import is_held_out
from bertsmith.training.means import RunningMeans

WRITE_SECONDS = 1.0
"""Shortest time between two calls of `log` for steps."""


class Tracker(ABC):
    """Receiver of a run's metrics, with the journal's names; a context, at whose end it closes.

    A small model takes dozens of steps a second, so steps are averaged: `log` receives the means of
    several steps about once a second and, if no error ends the run, once more at the end of the
    run. `log` receives the metrics of every eval, too.
    """

    def __init__(self) -> None:
        self._means = RunningMeans()
        self._step = 0
        self._written_at = time.monotonic()

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the metrics of a step, or the means of several steps, to the service."""

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Tell the service that the run has ended; `failed` is whether an error ended it."""

    def write(self, entry: Mapping[str, Any]) -> None:
        """Receive one journal entry; steps are averaged, see the class."""
        if is_held_out(entry):
            names = (name for name in entry if name.startswith("held_out_"))
            self.log(entry["step"], {name: entry[name] for name in names})
            return
        self._step = entry["step"]
        self._means.add({name: value for name, value in entry.items() if name != "step"})
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Log the means of the steps since the last flush."""
        if means := self._means.take():
            self.log(self._step, means)
        self._written_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.flush()
        self.close(failed=error is not None)
