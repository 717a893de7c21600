"""Signals become a wish, once; afterwards they act as before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith.system.stop_signal import StopSignal


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc tells of signals")
def test_the_first_worker_does_not_see_ctrl_c_while_it_begins():
    program = (
        "from pathlib import Path; from bertsmith.system.processes import _Worker; "
        "process = _Worker(len)._process; "
        "status = Path('/proc', str(process.pid), 'status').read_text(); "
        "print(status.partition('SigBlk:')[2].split()[0]); process.kill()"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(run.stdout, 16) >> (signal.SIGINT - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_an_ignored_signal_stays_ignored(hang_up, number):
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does, or & in a script
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), number)
            assert not stop.requested
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)
