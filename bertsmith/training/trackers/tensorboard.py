"""Write a run's metrics for TensorBoard, into a file of events in the run's folder.

The main thread writes them. The writer of tensorboardX uses another thread; if a full disk ended
that thread, the training loop would wait for ever.
"""

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.training.trackers.tracker import Tracker

TENSORBOARD_FLUSH_SECONDS = 30.0
"""Time after which TensorBoard sees new values; a value may wait in memory for so long."""


class EventWriter(Tracker):
    """Writes scalars with the journal's names; closes the file at the end of its context.

    Args:
        directory: the folder of the run, in which the file of events is made.
        first_step: number of the first step that is to be written.
    """

    def __init__(self, directory: Path, first_step: int) -> None:
        super().__init__()
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import scalar

        self._event, self._scalar = Event, scalar
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self._records = RecordWriter(str(directory / name))
        self._write(file_version="brain.Event:2")
        # This hides steps that a killed run wrote after its checkpoint.
        self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))
        self._flushed_at = time.monotonic()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write metrics by name, of `step` or as means of the steps up to it."""
        for name, value in values.items():
            self._write(step=step, summary=self._scalar(name, value))
        if time.monotonic() - self._flushed_at >= TENSORBOARD_FLUSH_SECONDS:
            self._records.flush()
            self._flushed_at = time.monotonic()

    def _write(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._records.write(event.SerializeToString())

    def close(self, *, failed: bool) -> None:
        """Close the file, which does not say whether the training `failed`."""
        self._records.close()
