"""Callbacks: receivers of a run's journal entries, which may end the run.

A journal entry has the metrics of one step, or of one evaluation (eval).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertsmith.training.journal import is_held_out


@dataclass(frozen=True)
class Status:
    """The progress of a run."""

    progress: float
    """Share of the run that is done, 0 to 1."""
    elapsed_seconds: float
    """Seconds of the run, evaluations and checkpoints included."""
    data_wait_fraction: float
    """Share of the steps' time in which the run waited for a batch, 0 to 1."""


class Callback:
    """Base class of receivers of a run's entries; override `on_step` or `on_eval`, or both.

    An entry is a line of `journal.jsonl`. For a step it has "step", "loss", "learning_rate",
    "tokens_per_second" and so on; for an eval, metrics whose names begin with "held_out_". If a
    method returns True, the run ends after this step, and its model is evaluated and saved as at
    the planned end. Callbacks run in the training process, between two steps, so training waits for
    them.
    """

    def begin(self, computing: str) -> None:
        """Receive the device, precision and notes of a run as text, before its first entry."""

    def change(self, step: int, text: str) -> None:
        """Receive the description of a change of the training, before step `step`."""

    def on_step(self, entry: Mapping[str, Any], status: Status) -> bool | None:
        """Receive the entry of a step. Return True to end the run."""
        return None

    def on_eval(self, entry: Mapping[str, Any], status: Status) -> bool | None:
        """Receive the entry of an eval. Return True to end the run."""
        return None

    def write(self, entry: Mapping[str, Any], status: Status) -> bool | None:
        """Receive any entry; by default pass it to `on_step` or `on_eval`."""
        if is_held_out(entry):
            return self.on_eval(entry, status)
        return self.on_step(entry, status)
