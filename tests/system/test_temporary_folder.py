"""A temporary folder is removed, whenever a signal stops the process."""

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
from bertsmith.system.stop_signal import raising_on_signals
from bertsmith.system.temporary_folder import temporary_folder

event, had_signal = sys.argv[1], False

def stop(name, arguments):
    global had_signal
    if name == event and not had_signal:
        had_signal = True
        os.kill(os.getpid(), signal.SIGTERM)

with raising_on_signals(at_exit=True):
    with temporary_folder() as folder:
        (folder / "run").mkdir()
        (folder / "run" / "weights").write_text("1")
        sys.addaudithook(stop)
    print("not stopped")
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process can handle")
@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("event", ["shutil.rmtree", "os.remove", "os.rmdir"])
def test_a_stop_signal_leaves_no_folder(tmp_path, event):
    """Python tells these events just before it acts, so the signal comes while it does."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, event], capture_output=True, text=True, timeout=600,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
