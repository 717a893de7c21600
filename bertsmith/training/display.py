"""The live view of a run: a panel on a terminal, elsewhere a line every few seconds.

It is written to standard error, so that standard output has only results. Training metrics are
means over the steps since the last update; eval metrics are shown beside them.
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
from bertsmith.training.objective import TERM_NAMES, WITHOUT_ACCURACY, list_terms

LIVE_SECONDS = 0.5


class Display(Callback):
    """Shows journal entries as they come; a context that leaves the terminal as it was."""

    def __init__(self, console: Console | None = None) -> None:
        self._console: Console = console or stderr_console()
        self._is_live = self._console.is_terminal
        self._means = RunningMeans()
        self._shown: dict[str, float] = {}
        self._held_out: dict[str, float] = {}
        self._slowest_rank: int | None = None
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
        self._print(computing.replace("\n", "\nnote      "))

    def change(self, step: int, text: str) -> None:
        """Print a change of the training, and reset the means."""
        self._means = RunningMeans()
        self._print(f"step {step:,} · {text}")

    def format_options(self, text: str) -> str:
        """Write the options in a note as flags; a subclass may write them otherwise."""
        return as_flags(text)

    def _print(self, note: str) -> None:
        self._console.print(self.format_options(note), soft_wrap=True, highlight=False)

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        held_out = is_held_out(entry)
        if held_out:
            self._held_out = {
                name.removeprefix("held_out_"): value
                for name, value in entry.items()
                if name.startswith("held_out_")
            }
        else:
            self._slowest_rank = entry.get("slowest_rank")
            self._means.add(
                {
                    name: value
                    for name, value in entry.items()
                    if name not in ("step", "slowest_rank")
                }
            )
        interval = LIVE_SECONDS if self._is_live else PLAIN_SECONDS
        now = time.monotonic()
        if held_out or now - self._shown_at >= interval or status.progress >= 1:
            self._shown_at = now
            self._shown |= self._means.take()
            if self._slowest_rank is not None:
                self._shown["slowest_rank"] = self._slowest_rank
            self._show(entry["step"], held_out, status)

    def _show(self, step: int, held_out: bool, status: Status) -> None:
        if self._live is not None:
            self._live.update(self._panel(step, status), refresh=True)
        else:
            values = self._held_out if held_out else self._shown
            self._console.print(plain_line(step, values, status, held_out=held_out), soft_wrap=True)

    def _panel(self, step: int, status: Status) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("", "loss", "accuracy", "eval loss", "eval score"):
            table.add_column(title, justify="right" if title else "left", style="bold")
        for term in list_terms({**self._held_out, **self._shown}):
            table.add_row(TERM_NAMES.get(term, term), *self._figures(term))
        bar = Table.grid()  # without a table the bar would not end its line
        bar.add_row(ProgressBar(total=1.0, completed=status.progress, width=60))
        speed = Text(
            f"{_speed(self._shown)} · waited for data {percent(status.data_wait_fraction)}"
        )
        rate = f"rate {self._shown.get('learning_rate', 0):.1e}"
        head = Text(f"step {step:,} · {_times(status)} · {rate}")
        return Group(head, bar, table, speed)

    def _figures(self, term: str) -> list[str]:
        return [
            figure
            for source in (self._shown, self._held_out)
            for figure in (_number(source, f"{term}_loss"), _score(source, term) or "–")
        ]


def plain_line(step: int, values: Mapping[str, float], status: Status, *, held_out: bool) -> str:
    """Format one line: loss and accuracy of each term, then speed and times."""
    terms = ", ".join(_term(values, term) for term in list_terms(values))
    if held_out:
        return f"step {step:,} · eval: {terms}"
    waited = f"waited {percent(status.data_wait_fraction)}"
    return f"step {step:,} · {terms} · {_speed(values)} · {waited} · {_times(status)}"


def _term(values: Mapping[str, float], term: str) -> str:
    """Format a term as "masked LM loss 2.310 (accuracy 41.2 %)"."""
    score = _score(values, term)
    if f"{term}_accuracy" in values and score:
        score = f"accuracy {score}"
    shown = f"{TERM_NAMES.get(term, term)} loss {_number(values, f'{term}_loss')}"
    return f"{shown} ({score})" if score else shown


def _number(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.3f}" if name in values else "–"


def _score(values: Mapping[str, float], term: str) -> str:
    """Format the accuracy of a term, or else its other metrics by name; empty if it has none."""
    if (accuracy := values.get(f"{term}_accuracy")) is not None:
        return "" if term in WITHOUT_ACCURACY else percent(accuracy)
    return ", ".join(
        f"{score_name(name.removeprefix(f'{term}_'))} {format_score(name, value, 3)}"
        for name, value in values.items()
        if name.startswith(f"{term}_") and not name.endswith(("_loss", "_score"))
    )


def _speed(values: Mapping[str, float]) -> str:
    tokens = f"{values.get('tokens_per_second', 0):,.0f} tokens/s"
    if "exchange_fraction" not in values:
        return tokens
    return (
        f"{tokens} · exchange {percent(values['exchange_fraction'])}, slowest rank "
        f"{values['slowest_rank']:.0f} ({values['slowest_rank_factor']:.2f} times the mean)"
    )


def _times(status: Status) -> str:
    seconds = status.elapsed_seconds
    return describe_times(status.progress, 1.0, seconds, seconds)
