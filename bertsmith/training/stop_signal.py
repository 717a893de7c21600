"""Ctrl-C, SIGTERM and a lost terminal as a wish that the loop honours between two steps."""

import signal
import threading
from types import FrameType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_UP = getattr(signal, "SIGHUP", None)
"""Sent when the terminal is gone; Windows has none."""


class StopSignal:
    """While entered, the first signal sets `requested`; a second one acts as it always does.

    A hang-up stays ignored where it was (nohup). It can come twice, from the shell and from the
    system, so a second one does nothing.

    Python delivers signals to the main thread only; elsewhere nothing is caught.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
            if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
                self._previous[HANG_UP] = signal.signal(HANG_UP, self._handle)
        return self

    def __exit__(self, *problem: object) -> None:
        self._restore(*self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore(*STOP_SIGNALS)

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            if number in self._previous:
                signal.signal(number, self._previous.pop(number))
