"""Progress of long work on standard error: a bar on a terminal, elsewhere a line now and then.

All long work reports its progress here. It is shown in commands, and to Python callers who ask.
"""

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from bertsmith.system.escaping import make_console
from bertsmith.system.notebook import LiveBlock, is_notebook

T = TypeVar("T")

BAR_AFTER = 0.7
"""Seconds of work before a bar is shown: shorter work would only flicker. They also lie between two
updates in a notebook's cell, and between two lines for a `LineWriter`."""
PLAIN_SECONDS = 5.0
"""Seconds between two lines where there is no terminal."""
WHOLE_SECONDS = 60.0
"""Seconds between two lines about a whole work, where its parts have lines of their own."""

MEASURED_SECONDS = 10.0
"""Seconds after which the remaining time is shown: the first steps say little about later ones."""

LineWriter = Callable[[str], None]
"""A function that receives lines about progress instead of standard error."""

_is_shown = ContextVar("is_shown", default=False)
_has_details = ContextVar("has_details", default=False)
_writer: ContextVar[LineWriter | None] = ContextVar("writer", default=None)


@contextmanager
def showing_progress(*, details: bool = False, write: LineWriter | None = None) -> Iterator[None]:
    """Show the progress of all work in the block, as the command line does.

    Args:
        details: whether `has_details` is true in the block, as with the flag --verbose.
        write: receives the lines about progress instead of standard error.
    """
    shown = _is_shown.set(True)
    detailed = _has_details.set(details)
    writer = _writer.set(write)
    try:
        yield
    finally:
        _is_shown.reset(shown)
        _has_details.reset(detailed)
        _writer.reset(writer)


def has_details() -> bool:
    """Return whether reports of runs are to have their details, such as how a run computes."""
    return _has_details.get()


class Bar:
    """Progress of one piece of work; without `total` the amount is unknown.

    Args:
        is_shown: whether it is shown; otherwise it only keeps the amount done.
        interval: seconds between two lines where there is no terminal.
    """

    def __init__(self, title: str, total: float | None, is_shown: bool, interval: float) -> None:
        self._title = title
        self._total = total
        self._is_shown = is_shown
        self.done = 0.0
        self._interval = interval
        self._began = self._shown_at = time.monotonic()
        self._task: Any = None
        self._block = LiveBlock()

    def __call__(self, amount: float = 1) -> None:
        self.move(self.done + amount)

    def move(self, done: float, total: float | None = None, title: str | None = None) -> None:
        """Record how much is done; total and title may change."""
        self.done = done
        self._total = total or self._total
        self._title = title or self._title
        if self._is_shown:
            _SCREEN.show(self)

    def line(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self._title} · {describe_times(self.done, self._total, seconds, seconds)}"


class _Screen:
    """Shows all bars in one live display of rich, which allows one per terminal."""

    def __init__(self) -> None:
        self._progress: Any = None

    def show(self, bar: Bar) -> None:
        """Show how far the work is, if it is time for that.

        The progress goes to the caller's function, or else to the live display, to a notebook's
        cell or, as a line, to standard error.
        """
        now = time.monotonic()
        if (write := _writer.get()) is not None:
            if now - bar._shown_at >= BAR_AFTER:
                bar._shown_at = now
                write(bar.line())
        elif bar._task is not None:
            self._update(bar)
        elif is_notebook():
            if now - bar._shown_at >= BAR_AFTER:
                bar._shown_at = now
                bar._block.show(bar.line())
        elif not sys.stderr.isatty():
            if now - bar._shown_at >= bar._interval:
                bar._shown_at = now
                print(bar.line(), file=sys.stderr, flush=True)
        elif now - bar._began >= BAR_AFTER:  # on a terminal, where the bar is not shown yet
            if self._progress is None:
                self._progress = _open_display()
            bar._task = self._progress.add_task(
                bar._title, total=bar._total, began=bar._began, seconds=0.0
            )
            self._update(bar)

    def _update(self, bar: Bar) -> None:
        self._progress.update(
            bar._task,
            completed=bar.done,
            total=bar._total,
            description=bar._title,
            seconds=time.monotonic() - bar._began,
        )

    def remove(self, bar: Bar) -> None:
        if bar._task is None:
            return
        self._progress.remove_task(bar._task)
        if not self._progress.tasks:
            self._progress.stop()
            self._progress = None


_SCREEN = _Screen()


@contextmanager
def progress_bar(
    title: str, total: float | None, *, shown: bool = False, interval: float | None = None
) -> Iterator[Bar]:
    """Show a bar in a command, or if `shown`; call it with each amount of work done.

    Args:
        title: name of the work, such as "reading".
        total: amount of work, None if it is unknown.
        interval: seconds between two lines where there is no terminal, by default
            `PLAIN_SECONDS`.
    """
    pause = PLAIN_SECONDS if interval is None else interval
    bar = Bar(title, total, shown or _is_shown.get(), pause)
    try:
        yield bar
    finally:
        _SCREEN.remove(bar)


@contextmanager
def only_bar(title: str, count: Callable[[], float | None]) -> Iterator[Bar]:
    """Show one bar in a command for work, and hide the bars of its parts, such as reading.

    Args:
        count: returns the total, or None if it is unknown; called only if a bar is shown.
    """
    total = count() if _is_shown.get() else None
    with progress_bar(title, total) as bar:
        shown = _is_shown.set(False)
        try:
            yield bar
        finally:
            _is_shown.reset(shown)


def tracked(items: Collection[T], title: str) -> Iterator[T]:
    """Yield the items and show a bar, with one unit of work per item."""
    with progress_bar(title, len(items)) as advance:
        for item in items:
            yield item
            advance()


@cache
def console() -> Any:
    """Return the console on standard error, which all live displays must share."""
    return make_console(stderr=True)


def _open_display() -> Any:
    from rich import progress  # takes a tenth of a second, which only a shown bar needs
    from rich.text import Text

    class Times(progress.ProgressColumn):
        """Time spent and time to go, estimated from all work so far, as parts may take minutes."""

        def render(self, task: progress.Task) -> Text:
            seconds = time.monotonic() - task.fields["began"]
            return Text(describe_times(task.completed, task.total, seconds, task.fields["seconds"]))

    # Not as rich's markup, which takes "[dev]" in the name of a file for a style.
    title = progress.TextColumn("{task.description}", markup=False)
    columns = (title, progress.BarColumn(), Times())
    display = progress.Progress(*columns, console=console(), transient=True, refresh_per_second=4)
    display.start()
    return display


def describe_times(done: float, total: float | None, seconds: float, last: float) -> str:
    """Format the amount done, the time spent and the remaining time.

    The remaining time is left out in the first `MEASURED_SECONDS`.

    Args:
        seconds: the time spent.
        last: the time that had been spent when `done` was last updated.
    """
    if done <= 0:
        return f"{clock(seconds)} spent"
    if not total:
        return f"{done:,.0f} done, {clock(seconds)} spent"
    share = min(1.0, done / total)
    spent = f"{100 * share:.0f} % · {clock(seconds)} spent"
    if seconds < MEASURED_SECONDS:
        return spent
    expected_total = last / share  # seconds of the whole work
    return f"{spent}, {clock(max(0.0, expected_total - seconds))} to go"


def clock(seconds: float) -> str:
    """Format a time as minutes and seconds, and with hours if there are any.

    >>> clock(75), clock(4000)
    ('1:15', '1:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
