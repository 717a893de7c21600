"""Signals become a wish, once; afterwards they act as before."""

import os
import signal

import pytest

from bertsmith.training.stop_signal import StopSignal


@pytest.fixture
def hang_up():
    """SIGHUP as a terminal's programs have it: not ignored, as it is where tests run in nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


def test_a_second_ctrl_c_stops_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_an_ignored_hang_up_stays_ignored(hang_up):
    signal.signal(hang_up, signal.SIG_IGN)  # as nohup does
    with StopSignal() as stop:
        os.kill(os.getpid(), hang_up)
        assert not stop.requested
    assert signal.getsignal(hang_up) == signal.SIG_IGN
