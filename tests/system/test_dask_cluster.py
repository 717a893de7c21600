"""A cluster of Dask: results in order, whatever its workers suffer, and one line where it fails."""

import json
import os
import subprocess
import sys
import threading
import time
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from clusters import end_the_process, local_cluster, process_of, refuse, square
from refusals import refuses

from bertsmith.errors import BertsmithWarning, ConfigError, issued_warnings
from bertsmith.system import dask_cluster
from bertsmith.system.dask_cluster import connect

pytest.importorskip("distributed", reason="Dask is not installed (pip install distributed)")


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as made:
        yield made


@pytest.fixture
def executor(cluster):
    cluster[1]._client.wait_for_workers(2)
    return cluster[1]


def test_results_come_in_order_from_both_workers(executor):
    assert list(executor.map_in_order(square, range(40))) == [n * n for n in range(40)]
    assert list(executor.map_in_order(square, [])) == []
    assert len(set(executor.map_in_order(process_of, range(8)))) == 2


def test_items_are_taken_only_a_little_ahead(executor):
    taken = []
    results = executor.map_in_order(square, (taken.append(n) or n for n in range(1000)))
    assert next(results) == 0
    assert len(taken) < 10
    results.close()


def test_an_error_reaches_the_caller(executor, tmp_path):
    with pytest.raises(FileNotFoundError):
        list(executor.map_in_order(refuse, [tmp_path / "missing"]))


def test_what_kills_three_workers_is_named(cluster, executor, tmp_path):
    """The scheduler keeps its limit for the work of other users, which allows one death more."""
    assert cluster[2].allowed_failures == 3
    items = [tmp_path / name for name in "abcd"]
    items[2].touch()
    with refuses(ConfigError, f"{items[2]}: its worker died 3 times", "tcp://", worded=False):
        list(executor.map_in_order(end_the_process, items))
    assert items[2].read_text() == 3 * "ended\n"
    assert cluster[2].allowed_failures == 3
    assert list(executor.map_in_order(square, range(4))) == [0, 1, 4, 9]


def pause(dask_worker, status):
    dask_worker.status = type(dask_worker.status)[status]


def test_paused_workers_are_told_and_given_up(executor, monkeypatch):
    monkeypatch.setattr(dask_cluster, "CHECK_SECONDS", 0.2)
    client = executor._client
    client.run(pause, status="paused")
    issued_warnings.clear()
    timer = threading.Timer(1.0, client.run, (pause,), {"status": "running"})
    timer.start()
    with pytest.warns(BertsmithWarning) as told:
        assert list(executor.map_in_order(square, range(4))) == [0, 1, 4, 9]
    timer.join()
    assert len(told) == 2 and all("is paused: its memory" in str(each.message) for each in told)
    monkeypatch.setattr(dask_cluster, "STUCK_SECONDS", 0.5)
    client.run(pause, status="paused")
    try:
        with refuses(ConfigError, "--scheduler", "all of its workers are paused", worded=False):
            list(executor.map_in_order(square, range(4)))
    finally:
        client.run(pause, status="running")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "foo://a:1"])
def test_nobody_answers(address, monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    with (
        refuses(ConfigError, f"--scheduler {address}:", "1 seconds", "dask scheduler"),
        connect(address),
    ):
        pass


def test_another_server_answers(monkeypatch):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            with (
                refuses(ConfigError, "--scheduler 127.0.0.1:", worded=False),
                connect(f"127.0.0.1:{server.server_port}"),
            ):
                pass
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def started(tmp_path):
    """Start processes of Dask that find modules in these folders alone, and end with the test."""
    processes = []

    def start(module, *words, path):
        with (tmp_path / f"{module}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-S", "-m", f"distributed.cli.{module}", *words],
                    stderr=log,
                    cwd=tmp_path,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
                )
            )
        return processes[-1]

    yield start
    for process in reversed(processes):
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(started, tmp_path):
    file = tmp_path / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), "--no-dashboard"]
    words += ["--dashboard-address", "127.0.0.1:0"]  # without it, a server takes port 8787
    process = started("dask_scheduler", *words, path=sys.path)
    for _ in range(300):
        if file.exists():
            return process, json.loads(file.read_text())["address"]
        time.sleep(0.1)
    raise AssertionError("the scheduler has not written its file")


def test_workers_that_are_missing_or_have_another_bertsmith(
    scheduler, started, tmp_path, monkeypatch
):
    process, address = scheduler
    monkeypatch.setattr(dask_cluster, "WORKERS_SECONDS", 1)
    with refuses(ConfigError, f"--scheduler {address}:", "no workers", worded=False):
        enter(address)
    monkeypatch.setattr(dask_cluster, "WORKERS_SECONDS", 60)
    other, without = tmp_path / "other", tmp_path / "without"
    metadata = other / "bertsmith-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: bertsmith\nVersion: 9.9\n")
    without.mkdir()
    for package in Path(pytest.__file__).parents[1].iterdir():
        if "bertsmith" not in package.name:
            (without / package.name).symlink_to(package)
    for path, part in (([other, *sys.path], "has bertsmith 9.9"), ([without], "has no bertsmith")):
        worker = started("dask_worker", address, "--nthreads", "1", "--no-nanny", path=path)
        with refuses(ConfigError, "The worker tcp://127.0.0.1:", part, worded=False):
            enter(address)
        worker.kill()
        worker.wait()
    started("dask_worker", address, "--nthreads", "1", "--no-nanny", path=sys.path)
    with connect(address) as executor:
        results = executor.map_in_order(time.sleep, [0, 60])
        next(results)
        timer = threading.Timer(1.0, process.kill)
        timer.start()
        with refuses(ConfigError, f"--scheduler {address}:", "has ended", worded=False):
            list(results)  # waits while the scheduler ends
        timer.join()
        with refuses(ConfigError, f"--scheduler {address}:", "has ended", worded=False):
            list(executor.map_in_order(square, [1]))


def enter(address):
    with connect(address):
        pass
