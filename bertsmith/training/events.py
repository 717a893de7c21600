"""TensorBoard events: journal entries go in, an events file beside the journal comes out.

A small model takes dozens of steps a second, more than anyone can look at: about once a second
the means since the last time are written. Held-out figures are written each time.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bertsmith.training.journal import is_held_out
from bertsmith.training.means import Means

WRITE_SECONDS = 1.0


class EventWriter:
    """Writes scalars named as in the journal; close it, or use it as a context."""

    def __init__(self, directory: Path, first_step: int) -> None:
        from tensorboardX import SummaryWriter

        # Steps that a killed run had written after its checkpoint are hidden by purge_step.
        self._writer = SummaryWriter(logdir=str(directory), purge_step=first_step)
        self._means = Means()
        self._written_at = time.monotonic()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Take in one journal entry."""
        if is_held_out(entry):
            self._add(entry["step"], {k: v for k, v in entry.items() if k.startswith("held_out_")})
            return
        self._means.add({key: value for key, value in entry.items() if key != "step"})
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self._add(entry["step"], self._means.take())
            self._written_at = time.monotonic()

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()
