"""Signals become a wish, once; afterwards they act as before."""

import os
import signal

import pytest

from bertsmith.system.stop_signal import StopSignal


def test_a_second_ctrl_c_stops_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


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
