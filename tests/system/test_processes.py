"""Work in other processes: the same results in the same order, and no more ahead than needed."""

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pytest
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.system.processes import LocalProcesses, count_processes, run_in_new_process


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_the_items(processes):
    assert list(LocalProcesses(processes).map_in_order(str, range(50))) == list(map(str, range(50)))
    assert list(LocalProcesses(processes).map_in_order(str, [])) == []


def test_an_error_in_the_work_reaches_the_caller():
    with pytest.raises(ValueError, match="invalid literal") as caught:
        list(LocalProcesses(2).map_in_order(int, ["1", "x"]))
    assert any("In a worker process" in note for note in caught.value.__notes__)


class TwoPartError(Exception):
    """An error that Python cannot make anew from what it stores."""

    def __init__(self, place, problem):
        super().__init__(f"{place}: {problem}")


def raise_two_part_error(item):
    raise TwoPartError("line 3", "no text")


def test_an_error_that_cannot_be_sent_reaches_the_caller_as_its_text():
    with pytest.raises(RuntimeError) as caught:
        list(LocalProcesses(2).map_in_order(raise_two_part_error, range(3)))
    assert str(caught.value) == "TwoPartError: line 3: no text"
    assert any("raise_two_part_error" in note for note in caught.value.__notes__)


def dies_while_it_answers(size):
    """Give so many bytes, of which the process writes half before it is killed."""
    send = Connection._send

    def send_half(pipe, content):
        is_large = len(content) > 1000
        send(pipe, content[: len(content) // 2] if is_large else content)
        if is_large:
            os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = send_half
    return bytes(size)


def test_a_worker_that_is_killed_while_it_hands_over_a_result():
    results = LocalProcesses(2).map_in_order(dies_while_it_answers, [10, 1_000_000, *[10] * 20])
    with refuses(ConfigError, "(SIGKILL)", "--processes"):
        assert max(map(len, results)) == 10
    assert not multiprocessing.active_children()


@dataclass
class DiesWhenItArrives:
    """Ends each process but the first when it is unpickled there."""

    pid: int

    def __setstate__(self, state):
        if os.getpid() != state["pid"]:
            os._exit(3)

    def __call__(self, item):
        return item


def test_a_worker_that_ends_as_it_starts():
    with refuses(ConfigError, "3", "--processes"):
        list(LocalProcesses(2).map_in_order(DiesWhenItArrives(os.getpid()), range(9)))


def process_of(item):
    return item, os.getpid()


def end_this_process(code):
    os._exit(code)


def test_a_new_process_for_one_item():
    item, process = run_in_new_process(process_of, "x")
    assert item == "x" and process != os.getpid()
    with pytest.raises(ValueError) as caught:
        run_in_new_process(int, "x")
    assert "invalid literal" in str(caught.value)
    with refuses(ConfigError, "exit code 7", "memory"):
        run_in_new_process(end_this_process, 7)
    assert not multiprocessing.active_children()


def test_scripts_need_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from bertsmith.system.processes import LocalProcesses\n"
        "print('run once')\n"
        "print(list(LocalProcesses(2).map_in_order(abs, [-1, -2, -3])))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert run.stdout.splitlines() == ["run once", "[1, 2, 3]"], run.stderr


def test_items_are_taken_only_a_little_ahead_and_no_worker_is_left():
    taken = []
    results = LocalProcesses(2).map_in_order(str, (taken.append(n) or n for n in range(100)))
    assert next(results) == "0"
    assert len(multiprocessing.active_children()) == 2
    results.close()
    assert not multiprocessing.active_children()
    assert len(taken) <= 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity here")
def test_only_the_cores_that_this_process_may_use_are_counted():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert count_processes() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert count_processes(40) == 40
    for number, allowed in ((0, "1 or more"), (10**6, "at most 1,024")):
        with refuses(ConfigError, "--processes", f" {number}", allowed):
            count_processes(number)
