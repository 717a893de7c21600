"""The HTML page of a run, which a browser reloads while the run lasts.

Its template is `training/page.html`.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from bertsmith.errors import BertsmithError, CheckpointError, InputError, Interrupted, as_flags
from bertsmith.pages.page import write_page
from bertsmith.pages.scale import Scale
from bertsmith.training.callback import Callback, Status
from bertsmith.training.curves import build_charts
from bertsmith.training.journal import is_held_out, read_journal
from bertsmith.training.objective import WITHOUT_ACCURACY, titles_of_terms
from bertsmith.training.run_config import flatten
from bertsmith.training.run_folder import RunFolder

REFRESH_SECONDS = 10
"""Time between two updates of the page after steps, and between two times that a browser loads it.
"""
MIN_REFRESH_SECONDS = 2.0
"""Shortest time between two updates after evaluations, which are frequent in a short run."""
SAVE_ERRORS = (InputError, CheckpointError, FileNotFoundError)
"""Errors of `RunPage.save`. They neither end a run nor hide the error that ended it, because a run
matters more than its page."""


def format_duration(seconds: float) -> str:
    """Format a duration with its units.

    >>> format_duration(47.3), format_duration(167), format_duration(3900)
    ('47 s', '2 min 47 s', '1 h 5 min')
    """
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds_left} s" if minutes else f"{seconds_left} s"


def mean_speed(entries: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the tokens per second of all steps together; None if there are none.

    >>> mean_speed([{"real_tokens": 90, "tokens_per_second": 90}, {"held_out_loss": 2.0},
    ...             {"real_tokens": 90, "tokens_per_second": 45}])
    60.0
    """
    steps = [
        (entry["real_tokens"], entry["real_tokens"] / entry["tokens_per_second"])
        for entry in entries
        if entry.get("tokens_per_second")
    ]
    if not steps:
        return None
    return sum(tokens for tokens, _ in steps) / sum(seconds for _, seconds in steps)


class RunPage(Callback):
    """Writes the page of a run as entries come; on exit it adds how the run ended.

    The page is written every `REFRESH_SECONDS` and after evaluations. In a resumed run, the earlier
    entries are read from the journal once.
    """

    def __init__(self, path: Path, folder: RunFolder) -> None:
        self.path = path
        self.folder = folder
        self.entries: list[Mapping[str, Any]] = []
        self.status = Status(progress=0.0, elapsed_seconds=0.0, data_wait_fraction=0.0)
        self.computing = ""
        self._tried_at = 0.0

    def begin(self, computing: str) -> None:
        """Read the journal's entries of a resumed run."""
        self.computing = as_flags(computing)
        with suppress(FileNotFoundError):
            self.entries = [*read_journal(self.folder.journal_path)]

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Keep a journal entry and the run's progress, and write the page if it is time."""
        self.entries.append(entry)
        self.status = status
        wait = MIN_REFRESH_SECONDS if is_held_out(entry) else REFRESH_SECONDS
        if time.monotonic() - self._tried_at >= wait:
            with suppress(*SAVE_ERRORS):
                self.save("running")
            self._tried_at = time.monotonic()  # a failed write is not tried again at each step

    def save(self, state: str) -> None:
        """Write the page. `state` completes the sentence "The run in … is".

        Raises:
            InputError: the disk is full, or the file cannot be written.
            FileNotFoundError: the run has no `run.json`.
            CheckpointError: `run.json` is damaged or cannot be read.
        """
        run = self.folder.read_run()
        steps = (entry for entry in reversed(self.entries) if not is_held_out(entry))
        evals = (entry for entry in reversed(self.entries) if is_held_out(entry))
        nothing: Mapping[str, Any] = {}
        last_step, last_eval = next(steps, nothing), next(evals, nothing)
        progress = self.status.progress
        seconds_left = self.status.elapsed_seconds * (1 / progress - 1) if progress else 0.0
        last = {**last_step, **last_eval, "step": self.entries[-1]["step"]}
        write_page(
            self.path,
            "training/page.html",
            out=str(self.folder.path),
            state=state,
            refresh=REFRESH_SECONDS if state == "running" else None,
            time=time.strftime("%H:%M:%S"),
            status=self.status,
            title=f"Training of {self.folder.path.resolve().name}",
            spent=format_duration(self.status.elapsed_seconds),
            left=format_duration(seconds_left) if progress else "",
            share=Scale(0, 1),  # of the progress bar
            last=last,
            tokens_per_second=mean_speed(self.entries),
            terms=[
                (term, title) for term, title in titles_of_terms().items() if f"{term}_loss" in last
            ],
            without_accuracy=WITHOUT_ACCURACY,
            charts=build_charts(self.entries, run),
            computing=self.computing,
            settings=dict(flatten(run["config"])),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self.entries:
            return
        # Only a command writes the page, so options are spelled as its flags.
        message = error.message if isinstance(error, BertsmithError) else error
        state = as_flags(f"failed: {message}")
        if error is None:
            state = "complete"
        elif isinstance(error, (Interrupted, KeyboardInterrupt)):
            state = "stopped"
        with suppress(*SAVE_ERRORS):
            self.save(state)
