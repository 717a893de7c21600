"""Views of a training run in Python: its live display, and its report at the end."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bertsmith.errors import ConfigError, as_arguments
from bertsmith.system.notebook import LiveBlock, is_notebook
from bertsmith.system.progress import showing_progress
from bertsmith.training.callback import Callback, Status
from bertsmith.training.display import Display, plain_line

VERBOSE = "BERTSMITH_VERBOSE"
"""Environment variable with the default of `verbose` for all estimators."""
BLOCK_SECONDS = 0.5
"""Minimum number of seconds between two steps that are shown in a notebook."""


def default_verbosity() -> int:
    """Return the default verbosity: 0 shows nothing, 1 the run, 2 its details, too.

    Raises:
        ConfigError: the environment variable has another value.
    """
    text = os.environ.get(VERBOSE, "").strip()
    if text not in ("", "0", "1", "2"):
        raise ConfigError(
            f"The environment variable {VERBOSE} is {text!r}; allowed are 0 to show nothing, 1 to "
            "show the run, and 2 to show its details, too."
        )
    return int(text or 1)


class TrainingView:
    """A view of a training run. This base class shows nothing."""

    callbacks: tuple[Callback, ...] = ()

    def show_report(self, text: str) -> None:
        """Show the report of a run that is complete."""


class PythonDisplay(Display, TrainingView):
    """The live view of a run on standard error.

    Its messages spell options as arguments (`max_length=64`), not as flags (`--max-length 64`).
    """

    @property
    def callbacks(self) -> tuple[Callback, ...]:  # type: ignore[override]
        return (self,)

    def format_options(self, text: str) -> str:
        return as_arguments(text)

    def show_report(self, text: str) -> None:
        self.close()
        print(text, file=sys.stderr)


class NotebookDisplay(Callback, TrainingView):
    """The live view of a run in a notebook: one block, which ends as the run's report."""

    def __init__(self) -> None:
        self._block = LiveBlock()
        self._head_lines: list[str] = []
        self._lines = {"step": "", "eval": "", "progress": ""}
        self._shown_at = 0.0

    @property
    def callbacks(self) -> tuple[Callback, ...]:  # type: ignore[override]
        return (self,)

    def begin(self, computing: str) -> None:
        """Show device, precision and notes of the run, `computing`, above all else."""
        self._head_lines = as_arguments(computing).split("\n")
        self._show()

    def change(self, step: int, text: str) -> None:
        """Add a line on a change of the training before a step, such as longer rows."""
        self._head_lines.append(f"step {step:,} · {text}")

    def on_step(self, entry: Mapping[str, Any], status: Status) -> None:
        self._lines["step"] = plain_line(entry["step"], entry, status, is_eval=False)
        if time.monotonic() - self._shown_at >= BLOCK_SECONDS or status.progress >= 1:
            self._show()

    def on_eval(self, entry: Mapping[str, Any], status: Status) -> None:
        values = {name.removeprefix("held_out_"): value for name, value in entry.items()}
        self._lines["eval"] = plain_line(entry["step"], values, status, is_eval=True)
        self._show()

    def show_progress(self, line: str) -> None:
        """Show the progress of work beside the run, such as reading."""
        self._lines["progress"] = line
        self._show()

    def show_report(self, text: str) -> None:
        self._block.show("\n".join([*self._head_lines, text]))

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        self._block.show("\n".join([*self._head_lines, *filter(None, self._lines.values())]))


@contextmanager
def training_view(verbosity: int) -> Iterator[TrainingView]:
    """Show the training in the block: with 0 nothing, with 1 the run, with 2 its details, too.

    In a notebook, the view is part of the cell's output; elsewhere it is on standard error.
    """
    if verbosity <= 0:
        yield TrainingView()
        return
    if is_notebook():
        block = NotebookDisplay()
        with showing_progress(details=verbosity > 1, write=block.show_progress):
            yield block
    else:
        with showing_progress(details=verbosity > 1), PythonDisplay() as display:
            yield display
