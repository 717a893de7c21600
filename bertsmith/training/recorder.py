"""Record a run's metrics in the journal, for TensorBoard, and in a tracker if the user wants one.

The journal is the file journal.jsonl; an entry has the metrics of a step or of an evaluation. A
tracker is a service that displays metrics, such as Weights & Biases.
"""

import importlib
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from bertsmith.errors import ConfigError, option
from bertsmith.training.journal import Journal
from bertsmith.training.run_config import flatten
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trackers.tensorboard import EventWriter
from bertsmith.training.trackers.tracker import Tracker


class Recorder:
    """Writes entries to the journal and to trackers, which it closes at the end of its context.

    Args:
        folder: the folder of the run, with its run.json.
        first_step: number of the first step that is to be recorded.
        tracker: a tracker besides TensorBoard; None for no other.
    """

    def __init__(self, folder: RunFolder, first_step: int, tracker: Tracker | None) -> None:
        # If one cannot be opened, those before it are closed. Otherwise `pop_all` keeps all open.
        with ExitStack() as stack:
            self._trackers = [] if tracker is None else [stack.enter_context(tracker)]
            self._journal = stack.enter_context(Journal(folder.journal_path))
            self._trackers.append(stack.enter_context(EventWriter(folder.path, first_step)))
            self._stack = stack.pop_all()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write an entry to the journal and all trackers."""
        self._journal.write(entry)
        for tracker in self._trackers:
            tracker.write(entry)

    def sync(self) -> None:
        self._journal.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: Any) -> None:
        # A full disk while closing must not hide the error that ended the run. Entries from before
        # the last `sync` are safe.
        with suppress(OSError):
            self._stack.__exit__(*problem)


def open_tracker(name: str, directory: Path, config: Mapping[str, Any]) -> Tracker:
    """Begin a run in the service `name`, whose tracker is in `trackers/{name}_tracker.py`.

    `config` has the run's settings, in tables, which the service shows.

    Raises:
        ConfigError: the package of the service is not installed, or the run cannot begin there.
    """
    module = importlib.import_module(f"bertsmith.training.trackers.{name}_tracker")
    try:
        return getattr(module, f"begin_{name}")(directory, dict(flatten(config)))
    except ImportError as error:
        raise ConfigError(
            f"{option('report_to')}: found {name}, whose package cannot be imported ({error}). "
            f"Run: pip install {name}"
        ) from error
