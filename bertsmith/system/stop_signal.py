"""Stop requests by Ctrl-C, SIGTERM and SIGHUP."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_UP = getattr(signal, "SIGHUP", None)
"""Sent when the terminal is gone; Windows has none."""
SIGNALS = tuple(filter(None, (*STOP_SIGNALS, HANG_UP)))
"""Signals that the main process answers, also where its whole group gets them."""


class StopSignal:
    """While entered, the first signal sets `requested`; a second one acts as it always does.

    A signal stays ignored where it was, as by nohup, or in the background of a script. A hang-up
    can come twice, from the shell and from the system, so a second one does nothing.

    Python delivers signals to the main thread only; elsewhere nothing is caught.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
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


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Block stop signals for a process while it starts in the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # as it begins it would let the signals through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
