"""A run's entries go in once and reach all who keep or show them: journal, TensorBoard, display."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from bertsmith.training.events import EventWriter
from bertsmith.training.journal import Journal
from bertsmith.training.run_folder import RunFolder


@dataclass(frozen=True)
class Status:
    """How far a run is: shares from 0 to 1, and seconds of training."""

    progress: float
    elapsed_seconds: float
    waited_share: float


class Watcher(Protocol):
    """Whoever wants to see the entries as they come, such as a display."""

    def begin(self, computing: str) -> None:
        """Take in how the run computes, before its first entry."""
        ...

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Take in one entry."""
        ...


class Recorder:
    """Opens a run's journal and events file; use it as a context, which closes them."""

    def __init__(self, folder: RunFolder, first_step: int, watchers: Sequence[Watcher]) -> None:
        self._stack = ExitStack()
        self._journal = self._stack.enter_context(Journal(folder.journal_path))
        self._events = self._stack.enter_context(EventWriter(folder.path, first_step))
        self._watchers = watchers

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Hand one entry to all."""
        self._journal.write(entry)
        self._events.write(entry)
        for watcher in self._watchers:
            watcher.write(entry, status)

    def sync(self) -> None:
        """Put the journal on the disk."""
        self._journal.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What ended the run matters more than a last line that a full disk does not take.
        with suppress(OSError) if error else nullcontext():
            self._stack.close()
