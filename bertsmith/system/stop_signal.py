"""Stop requests by Ctrl-C, SIGTERM and SIGHUP."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

HANG_UP = getattr(signal, "SIGHUP", None)
"""Sent when the terminal is gone; Windows has none."""
SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, HANG_UP)))
"""Stop signals. If the whole process group gets one, only the main process acts on it: the workers
ignore them."""
REPEAT_SECONDS = 2.0
"""Time within which a second signal is the same request as the first. A key may be pressed twice,
or the end of a job may be signalled to the process group and to each of its processes."""
NEVER = -float("inf")


class _LastRequest:
    """The last stop request of this process: signals are for processes, not for objects."""

    number: int = signal.SIGINT
    at: float = NEVER

    def note(self, number: int) -> None:
        self.number = number
        self.at = time.monotonic()

    def is_repeated_by(self, number: int) -> bool:
        """Return whether a signal repeats the last request.

        A hang-up may come first from the shell and later, at any time, from the system.
        """
        if number == HANG_UP:
            return self.at > NEVER
        return time.monotonic() - self.at < REPEAT_SECONDS


_last = _LastRequest()


def stopped_by() -> str:
    """Name the last stop request as users know it, such as Ctrl-C."""
    return "Ctrl-C" if _last.number == signal.SIGINT else signal.Signals(_last.number).name


def exit_code() -> int:
    """Return the exit code after the last stop request, as in a shell: 128 plus its number."""
    return 128 + _last.number


@contextmanager
def raising_on_signals(*, at_exit: bool = False) -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it cleans up.

    A second signal right after the first does not interrupt the cleanup. Signals that were ignored
    stay ignored, and a program's own handlers stay.

    Args:
        at_exit: after a request, keep these handlers until the process has ended.

    Raises:
        KeyboardInterrupt: the process got such a signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _last.number = signal.SIGINT
    _last.at = NEVER
    is_raised = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_raised
        if not _last.is_repeated_by(number):
            _last.note(number)
            is_raised = True
            raise KeyboardInterrupt

    usual = (signal.SIG_DFL, signal.default_int_handler)
    previous = {
        number: signal.signal(number, stop)
        for number in SIGNALS
        if signal.getsignal(number) in usual
    }
    try:
        yield
    except Exception as error:
        if is_raised:  # code in other languages, such as safetensors, turned it into its own error
            raise KeyboardInterrupt from error
        raise
    finally:
        if not at_exit or _last.at == NEVER:
            for number, handler in previous.items():
                signal.signal(number, handler)


class StopSignal:
    """A context in which the first stop signal sets `requested`; a later one has its usual effect.

    A signal that repeats the request (`REPEAT_SECONDS`) has no effect, nor has any after
    `ignore_more`. Signals that were ignored before stay ignored, as under nohup, or in the
    background of a script.

    Python delivers signals only to the main thread; in other threads this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._is_finishing = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *problem: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def ignore_more(self) -> None:
        """Ignore further signals, so that they do not interrupt saving."""
        self._is_finishing = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested = True
            _last.note(number)
        elif not self._is_finishing and not _last.is_repeated_by(number):
            signal.signal(number, self._previous.pop(number))
            signal.raise_signal(number)


@contextmanager
def delaying_stops() -> Iterator[None]:
    """Let a stop signal wait until the block has ended.

    Raises:
        KeyboardInterrupt: the process got such a signal in the block.
    """
    with StopSignal() as stop:
        yield
    if stop.requested:
        raise KeyboardInterrupt
