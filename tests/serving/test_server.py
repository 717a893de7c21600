"""The command: one line at the start, an engine that is replaced, and an end that loses nothing."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tiny_models import reviews, save_tiny

from bertsmith.serving.environment import named_folders
from bertsmith.serving.server import bind

TEXTS = [example.text for example in reviews(40)]
SECONDS = 120


@contextlib.contextmanager
def server(*words):
    """Run `bertsmith serve` on a free port; yields the process and its first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bertsmith", "serve", *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_of(line):
    return int(line.split()[0].rpartition(":")[2])


def send(port, path, body=None, timeout=SECONDS):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    if body is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, content


def engine_of(process):
    """The id of the server's child that computes."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return int(next(line for line in listed.splitlines() if "spawn_main" in line).split()[0])


def test_the_first_line_says_where_and_what(tmp_path):
    folder = save_tiny(tmp_path / "reviews", "classify", labels=("bad", "good"))
    with server(folder, "--threads", "1", "--precision", "fp32") as (_process, line):
        port = port_of(line)
        assert line.startswith(f"http://127.0.0.1:{port} serves reviews: text-classification, fp32")
        assert send(port, "/health") == (200, b"")
        status, content = send(port, "/predict", {"inputs": TEXTS[0]})
        assert status == 200
        assert {row["label"] for row in json.loads(content)} == {"bad", "good"}


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_an_engine_that_dies_is_replaced_and_its_requests_are_told(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with server(folder, "--max-batch-tokens", "20", "--threads", "1") as (process, line):
        port = port_of(line)
        statuses = []
        clients = [
            threading.Thread(
                target=lambda: statuses.append(send(port, "/embed", {"inputs": TEXTS * 20})[0])
            )
            for _ in range(2)
        ]
        for client in clients:
            client.start()
        os.kill(engine_of(process), signal.SIGKILL)
        for client in clients:
            client.join()
        assert set(statuses) <= {200, 503}
        end = time.monotonic() + SECONDS
        while send(port, "/health")[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert send(port, "/embed", {"inputs": TEXTS[0]})[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_the_engine_ends_with_its_server(tmp_path):
    with server(save_tiny(tmp_path / "encoder"), "--threads", "1") as (process, _line):
        engine = engine_of(process)
        process.kill()
        process.wait()
        end = time.monotonic() + SECONDS
        while Path(f"/proc/{engine}").exists():
            assert time.monotonic() < end
            time.sleep(0.05)


def test_sigterm_finishes_what_runs(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with server(folder, "--max-batch-tokens", "20", "--threads", "1") as (process, line):
        port = port_of(line)
        statuses = []
        client = threading.Thread(
            target=lambda: statuses.append(send(port, "/embed", {"inputs": TEXTS * 25})[0])
        )
        client.start()
        while b"te_queue_size 0.0" in send(port, "/metrics")[1] and not statuses:
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        client.join()
        assert statuses == [200]
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        assert "The server was stopped by SIGTERM" in process.stderr.read()


def test_the_http_process_has_no_torch(tmp_path):
    program = (
        "import sys; import bertsmith.commands.serve; "
        "sys.exit(int('torch' in sys.modules or 'transformers' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("case", ["missing", "port", "same name"])
def test_what_cannot_be_served_is_one_line(tmp_path, case):
    folder = save_tiny(tmp_path / "encoder")
    words = [folder, "--port", "0"]
    with contextlib.ExitStack() as stack:
        if case == "missing":
            words[0] = tmp_path / "nothing"
        elif case == "same name":
            words.insert(1, f"encoder={folder}")
        else:
            _, line = stack.enter_context(server(folder))
            words[-1] = str(port_of(line))
        result = subprocess.run(
            [sys.executable, "-m", "bertsmith", "serve", *map(str, words)],
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("bertsmith: ")


def test_names_of_models():
    assert list(named_folders(("runs/a", "b=runs/a/"))) == ["a", "b"]


def test_answers_are_not_held_back_by_the_system():
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
