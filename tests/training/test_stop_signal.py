"""Signals become a wish, once; afterwards they act as before."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from bertsmith.training.stop_signal import StopSignal


@pytest.fixture
def hang_up() -> Iterator[signal.Signals]:
    """SIGHUP as a terminal's programs have it: not ignored, as it is where tests run in nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_wish(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_hang_up_changes_nothing(hang_up: signal.Signals) -> None:
    with StopSignal() as stop:
        os.kill(os.getpid(), hang_up)
        assert stop.requested
        os.kill(os.getpid(), hang_up)
    assert signal.getsignal(hang_up) == signal.SIG_DFL


def test_an_ignored_hang_up_stays_ignored(hang_up: signal.Signals) -> None:
    signal.signal(hang_up, signal.SIG_IGN)  # as nohup does
    with StopSignal() as stop:
        os.kill(os.getpid(), hang_up)
        assert not stop.requested
    assert signal.getsignal(hang_up) == signal.SIG_IGN


def test_other_threads_catch_nothing() -> None:
    seen: list[bool] = []

    def work() -> None:
        with StopSignal() as stop:
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
