"""Fan-out of a run's entries to journal, TensorBoard and display."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from bertsmith.training.journal import Journal
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.tensorboard import EventWriter


@dataclass(frozen=True)
class Status:
    """Progress of a run: shares from 0 to 1, and seconds of training."""

    progress: float
    elapsed_seconds: float
    data_wait_fraction: float


class Callback(Protocol):
    """Receiver of entries as they come, such as a display."""

    def begin(self, computing: str) -> None:
        """Receive how the run computes, before its first entry."""
        ...

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        """Receive one entry."""
        ...


class Recorder:
    """Fan-out of entries; as a context, it closes journal and events file."""

    def __init__(self, folder: RunFolder, first_step: int, callbacks: Sequence[Callback]) -> None:
        self._stack = ExitStack()
        self._journal = self._stack.enter_context(Journal(folder.journal_path))
        self._events = self._stack.enter_context(EventWriter(folder.path, first_step))
        self._watchers = callbacks

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        self._journal.write(entry)
        self._events.write(entry)
        for callback in self._watchers:
            callback.write(entry, status)

    def sync(self) -> None:
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
