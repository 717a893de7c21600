"""Signals become a wish, once; afterwards they act as before."""

import os
import signal

import pytest

from bertsmith.system import stop_signal
from bertsmith.system.stop_signal import StopSignal, exit_code, raising_on_signals


def test_two_ctrl_c_at_once_are_one_request():
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested


def test_a_later_second_ctrl_c_stops_at_once_unless_the_run_is_being_saved(monkeypatch):
    monkeypatch.setattr(stop_signal, "REPEAT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        stop.ignore_more()
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_raises_once_so_that_the_block_can_clean_up(number):
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    try:
        with pytest.raises(KeyboardInterrupt), raising_on_signals():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)
                is_clean = True
        assert is_clean and exit_code() == 128 + number
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_an_ignored_signal_stays_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does, or & in a script
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), number)
            assert not stop.requested
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)
