"""Write journal entries as TensorBoard events, beside the journal.

A small model takes dozens of steps a second: their means are written about once a second, eval
metrics each time. They are written in the training loop: the usual writer hands them to a thread,
and if a full disk ends that thread, the loop waits for it for ever.
"""

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bertsmith.training.journal import is_held_out
from bertsmith.training.means import Means

WRITE_SECONDS = 1.0
FLUSH_SECONDS = 30.0


class EventWriter:
    """Writer of scalars named as in the journal; use it as a context."""

    def __init__(self, directory: Path, first_step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import scalar

        self._event, self._scalar = Event, scalar
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self._records = RecordWriter(str(directory / name))
        self._write(file_version="brain.Event:2")
        # Steps that a killed run had written after its checkpoint are hidden by this.
        self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))
        self._means = Means()
        self._written_at = self._flushed_at = time.monotonic()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write one journal entry; steps are averaged first."""
        if is_held_out(entry):
            self._add(entry["step"], {k: v for k, v in entry.items() if k.startswith("held_out_")})
            return
        self._means.add({key: value for key, value in entry.items() if key != "step"})
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self._add(entry["step"], self._means.take())
            self._written_at = time.monotonic()

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._write(step=step, summary=self._scalar(name, value))
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self._records.flush()
            self._flushed_at = time.monotonic()

    def _write(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._records.write(event.SerializeToString())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._records.close()
