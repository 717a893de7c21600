"""Counting words: the same whatever the order, the batches and the number of processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.errors import ConfigError
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.vocabulary.word_counts import count_words

TEXTS = ["It's a test.", "", "Ein Café, a café!", "中文 text", "a " * 50]


@given(st.permutations(TEXTS), st.integers(1, 40))
def test_order_and_batches_change_nothing(texts: list[str], batch_chars: int) -> None:
    words = Normalizer().words
    expected = Counter(word for text in TEXTS for word in words(text))
    assert count_words(texts, words, batch_chars=batch_chars) == expected
    assert expected["cafe"] == 2 and expected["中"] == 1


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_change_nothing(processes: int) -> None:
    words = Normalizer(lowercase=False).words
    texts = [f"{text} number {number % 7}" for number in range(40) for text in TEXTS]
    alone = count_words(texts, words)
    together = count_words(iter(texts), words, executor=LocalProcesses(processes), batch_chars=100)
    assert together == alone


def test_an_error_while_reading_reaches_the_caller() -> None:
    def texts() -> object:
        yield "a" * 200
        yield "b" * 200
        raise LookupError("broken file")

    with pytest.raises(LookupError, match="broken file"):
        count_words(texts(), Normalizer().words, executor=LocalProcesses(2), batch_chars=100)  # type: ignore[arg-type]


def ends_its_process(text: str) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return [text]


def test_a_worker_that_dies_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"a worker process was killed.*fewer --processes"):
        count_words(["text"] * 9, ends_its_process, executor=LocalProcesses(2), batch_chars=1)


COUNT = """
import sys
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.vocabulary.word_counts import count_words
def texts():
    for _ in range(9):
        yield "text"
    print("counted", flush=True)
    sys.stdin.readline()
if __name__ == "__main__":
    count_words(texts(), Normalizer().words, executor=LocalProcesses(2), batch_chars=1)
"""


def test_no_worker_outlives_a_killed_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COUNT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"counted\n"
        process.send_signal(signal.SIGKILL)
    try:
        deadline = time.monotonic() + 60
        while _group_is_alive(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_no_text_gives_no_words() -> None:
    assert count_words([], Normalizer().words, executor=LocalProcesses(4)) == {}
