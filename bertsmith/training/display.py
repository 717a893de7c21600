"""The live view of a run: a panel on a terminal, elsewhere a line every few seconds.

The view is written to standard error, so that standard output has only results. It receives the
run's journal entries, each with the metrics of one step or of one evaluation (eval). Training
metrics are shown as means over the steps since the last update, and eval metrics beside them.
"""

import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bertsmith.errors import as_flags
from bertsmith.metrics.names import format_score, score_name
from bertsmith.system.counts import percent
from bertsmith.system.progress import PLAIN_SECONDS, describe_times
from bertsmith.system.progress import console as stderr_console
from bertsmith.training.callback import Callback, Status
from bertsmith.training.journal import is_held_out
from bertsmith.training.means import RunningMeans
from bertsmith.training.objective import WITHOUT_ACCURACY, list_terms, title_of_term

LIVE_SECONDS = 0.5
"""Shortest time between two updates of the panel; between two lines it is `PLAIN_SECONDS`."""


class Display(Callback):
    """Shows journal entries as they come; a context that leaves the terminal as it was."""

    def __init__(self, console: Console | None = None) -> None:
        self._console: Console = console or stderr_console()
        self._is_live = self._console.is_terminal
        self._means = RunningMeans()
        self._shown: dict[str, float] = {}
        """Training metrics by their names in the journal, as they were last shown."""
        self._held_out: dict[str, float] = {}
        """Metrics of the last eval, by their names without "held_out_"."""
        self._shown_at = 0.0
        self._live: Any = None

    def __enter__(self) -> Self:
        if self._is_live:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the live panel."""
        if self._live is not None:
            self._live.stop()

    def begin(self, computing: str) -> None:
        """Print the device, precision and notes of a run, and reset the display."""
        self._means = RunningMeans()
        self._shown = {}
        self._held_out = {}
        # The first line is about the hardware, and each other line is a note.
        self._print(computing.replace("\n", "\nnote      "))

    def change(self, step: int, text: str) -> None:
        """Print a change of the training, and reset the means."""
        self._means = RunningMeans()
        self._print(f"step {step:,} · {text}")

    def format_options(self, text: str) -> str:
        """Spell the options that a note names as flags; a subclass may spell them otherwise."""
        return as_flags(text)

    def _print(self, note: str) -> None:
        # Not as rich's markup, which would take "[old]" in the name of a folder for a style.
        text = self.format_options(note)
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Show the entry of an eval at once, and steps once an interval; `status` is the run's."""
        is_eval = is_held_out(entry)
        if is_eval:
            self._held_out = {
                name.removeprefix("held_out_"): value
                for name, value in entry.items()
                if name.startswith("held_out_")
            }
        else:
            self._means.add({name: value for name, value in entry.items() if name != "step"})
        interval = LIVE_SECONDS if self._is_live else PLAIN_SECONDS
        now = time.monotonic()
        if is_eval or now - self._shown_at >= interval or status.progress >= 1:
            self._shown_at = now
            self._shown |= self._means.take()
            self._show(entry["step"], is_eval, status)

    def _show(self, step: int, is_eval: bool, status: Status) -> None:
        if self._live is not None:
            self._live.update(self._panel(step, status), refresh=True)
        else:
            metrics = self._held_out if is_eval else self._shown
            line = plain_line(step, metrics, status, is_eval=is_eval)
            self._console.print(line, soft_wrap=True, markup=False)

    def _panel(self, step: int, status: Status) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("", "loss", "accuracy", "eval loss", "eval score"):
            table.add_column(title, justify="right" if title else "left", style="bold")
        for term in list_terms({**self._held_out, **self._shown}):
            table.add_row(title_of_term(term), *self._format_cells(term))
        bar = Table.grid()  # a bar outside of a table would not end its line
        bar.add_row(ProgressBar(total=1.0, completed=status.progress, width=60))
        speed = Text(
            f"{_speed(self._shown)} · waited for data {percent(status.data_wait_fraction)}"
        )
        rate = f"rate {self._shown.get('learning_rate', 0):.1e}"
        head = Text(f"step {step:,} · {_times(status)} · {rate}")
        return Group(head, bar, table, speed)

    def _format_cells(self, term: str) -> list[str]:
        """Format loss and accuracy of a term in training, then in the last eval."""
        return [
            cell
            for metrics in (self._shown, self._held_out)
            for cell in (_format_loss(metrics, term), _format_scores(metrics, term) or "–")
        ]


def plain_line(step: int, metrics: Mapping[str, float], status: Status, *, is_eval: bool) -> str:
    """Format one line: loss and accuracy of each loss term; after a step also speed and times."""
    terms = ", ".join(_format_term(metrics, term) for term in list_terms(metrics))
    if is_eval:
        return f"step {step:,} · eval: {terms}"
    waited = f"waited {percent(status.data_wait_fraction)}"
    return f"step {step:,} · {terms} · {_speed(metrics)} · {waited} · {_times(status)}"


def _format_term(metrics: Mapping[str, float], term: str) -> str:
    """Format a term as "masked LM loss 2.310 (accuracy 41.2 %)"."""
    scores = _format_scores(metrics, term)
    if f"{term}_accuracy" in metrics and scores:
        scores = f"accuracy {scores}"
    name_and_loss = f"{title_of_term(term)} loss {_format_loss(metrics, term)}"
    return f"{name_and_loss} ({scores})" if scores else name_and_loss


def _format_loss(metrics: Mapping[str, float], term: str) -> str:
    name = f"{term}_loss"
    return f"{metrics[name]:.3f}" if name in metrics else "–"


def _format_scores(metrics: Mapping[str, float], term: str) -> str:
    """Format the accuracy of a term, or else its other metrics by name; empty if it has none."""
    if (accuracy := metrics.get(f"{term}_accuracy")) is not None:
        return "" if term in WITHOUT_ACCURACY else percent(accuracy)
    return ", ".join(
        f"{score_name(name.removeprefix(f'{term}_'))} {format_score(name, value, 3)}"
        for name, value in metrics.items()
        # `…_score` repeats one of the other metrics: the main one of the task.
        if name.startswith(f"{term}_") and not name.endswith(("_loss", "_score"))
    )


def _speed(metrics: Mapping[str, float]) -> str:
    """Format the tokens per second; on several ranks also the exchange and the slowest rank.

    A rank is one of the machines or GPUs that train together.
    """
    tokens = f"{metrics.get('tokens_per_second', 0):,.0f} tokens/s"
    if "exchange_fraction" not in metrics:
        return tokens
    return (
        f"{tokens} · exchange {percent(metrics['exchange_fraction'])}, slowest rank "
        f"{metrics['slowest_rank']:.0f} ({metrics['slowest_rank_factor']:.2f} times the mean)"
    )


def _times(status: Status) -> str:
    """Format the progress in percent, the time so far and the time to go."""
    seconds = status.elapsed_seconds
    return describe_times(done=status.progress, total=1.0, seconds=seconds, last=seconds)
