"""Ctrl-C and SIGTERM as a wish that the loop honours between two steps."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignal:
    """While entered, the first signal sets `requested`; a second one acts as it always does.

    Python delivers signals to the main thread only; elsewhere nothing is caught.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
