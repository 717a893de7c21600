"""A command that is stopped cleans up, whichever signal asks for it; real processes and signals."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tiny_models import save_tiny

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals"),
    pytest.mark.same_on_all_computers,
]

STOPS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@contextmanager
def running(words, folder):
    """A command in a folder of its own, which has begun to write a hidden file there."""
    folder.mkdir()
    program = (
        "import signal, sys; from bertsmith.cli import main; "
        "[signal.signal(each, signal.SIG_DFL) for each in (signal.SIGTERM, signal.SIGHUP)]; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); main()"
    )  # the signals may be ignored where the tests run, as under nohup
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)], cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 120
        while not list(folder.glob(".*")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
        process.kill()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "classify", labels=("neg", "pos"))


@pytest.mark.parametrize(("command", "number"), [
    ("predict", signal.SIGINT),
    ("predict", signal.SIGTERM),
    ("embed", signal.SIGHUP),
    ("evaluate", signal.SIGTERM),
    ("corpus build", signal.SIGTERM),
])  # fmt: skip
def test_a_stopped_command_leaves_no_hidden_file(model, tmp_path, command, number):
    text = tmp_path / "text.txt"
    text.write_text("The film was good. The story was dull.\n\n" * 300_000)
    words = {
        "predict": [model, "-", "--out", "out.jsonl"],  # which waits for texts
        "embed": [model, "-", "--out", "out.npy"],
        "corpus build": [text, "--tokenizer", model, "--out", "out", "--processes", 2],
        "evaluate": [model, "--data", "-", "--format", "jsonl", "--page", "out.html"],
    }[command]
    with running([*command.split(), *words], tmp_path / "work") as process:
        process.send_signal(number)
        process.send_signal(number)  # as of a key that is pressed twice
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
    assert process.returncode in (STOPS[number], STOPS[signal.SIGTERM]), said
    assert "Earlier results are kept" in said
    assert list((tmp_path / "work").iterdir()) == []
