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
from refusals import refuses
from tiny_models import reviews, save_tiny

from bertsmith.commands.settings.serve import Settings
from bertsmith.errors import ConfigError, SettingError
from bertsmith.serving.environment import parse_model_folders
from bertsmith.serving.server import bind

pytestmark = pytest.mark.same_on_all_computers
TEXTS = [example.text for example in reviews(40)]
SECONDS = 120


CPU = ("--threads", "1", "--precision", "fp32", "--device", "cpu")
WITH_SHORT_PAUSES = (
    "import sys; from bertsmith import cli; from bertsmith.serving import service; "
    "service.RESTART_PAUSES = (0.0, 0.1); cli.main(sys.argv[1:])"
)
"""A program that starts an engine twice again, without long pauses."""


@contextlib.contextmanager
def server(*words, program=("-m", "bertsmith"), port=0, environment=None):
    """Run `bertsmith serve`, by default on a free port; yields the process and its first line."""
    process = subprocess.Popen(
        [sys.executable, *program, "serve", *map(str, words), "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process, process.stdout.readline() if port == 0 else ""
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
    """The id of the server's child that computes; waits until there is one."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        listed = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)],
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        for line in listed.splitlines():
            if "spawn_main" in line:
                return int(line.split()[0])
        time.sleep(0.02)
    raise AssertionError("the server has no engine")


def wait_until_healthy(port):
    end = time.monotonic() + SECONDS
    while send(port, "/health")[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.1)


def kill_engine(process, port):
    """Kill the engine, and wait until the server has noticed that."""
    os.kill(engine_of(process), signal.SIGKILL)
    end = time.monotonic() + SECONDS
    while send(port, "/health")[0] == 200:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_first_line_says_where_and_what(tmp_path):
    folder = save_tiny(tmp_path / "reviews", "classify", labels=("bad", "good"))
    with server(folder, "--threads", "1", "--precision", "fp32") as (_process, line):
        port = port_of(line)
        assert line.startswith(f"http://127.0.0.1:{port} serves reviews: text-classification, fp32")
        assert send(port, "/health") == (200, b"")
        status, content = send(port, "/predict", {"inputs": TEXTS[0]})
        assert status == 200
        assert {row["label"] for row in json.loads(content)} == {"bad", "good"}


def test_a_warning_of_the_engine_is_one_line(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with (folder / "config.json").open("a") as config:
        config.write("\n")
    with server(folder, *CPU) as (process, line):
        assert "serves encoder" in line
        assert process.stderr.readline().startswith(f"bertsmith: {folder}: config.json differs")
        process.terminate()
        assert process.stderr.read().startswith("The server was stopped")


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
        wait_until_healthy(port)
        assert send(port, "/embed", {"inputs": TEXTS[0]})[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_a_start_that_fails_is_tried_again(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with server(folder, *CPU, program=("-c", WITH_SHORT_PAUSES)) as (process, line):
        port = port_of(line)
        folder.rename(tmp_path / "away")
        kill_engine(process, port)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        connection.request("GET", "/health")
        response = connection.getresponse()
        assert response.headers["Retry-After"] == "5"
        assert "is started again" in json.loads(response.read())["error"]
        connection.close()
        assert "has ended; it is started again." in process.stderr.readline()
        assert "there is no such folder" in process.stderr.readline()
        (tmp_path / "away").rename(folder)
        wait_until_healthy(port)
        assert send(port, "/embed", {"inputs": TEXTS[0]})[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_files_that_have_changed_are_told_when_they_are_loaded(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with server(folder, *CPU) as (process, line):
        port = port_of(line)
        (folder / "1_Pooling").mkdir()
        settings = {"word_embedding_dimension": 24, "pooling_mode_cls_token": True}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
        assert json.loads(send(port, "/info")[1])["has_changed_on_disk"]
        kill_engine(process, port)
        wait_until_healthy(port)
        assert not json.loads(send(port, "/info")[1])["has_changed_on_disk"]
        process.stderr.readline()
        assert process.stderr.readline().startswith(f"encoder: the files of {folder} have changed")


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_a_server_whose_engine_ends_again_and_again_ends_itself(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with server(folder, *CPU, program=("-c", WITH_SHORT_PAUSES)) as (process, line):
        port = port_of(line)
        for _ in range(2):
            kill_engine(process, port)
            wait_until_healthy(port)
        os.kill(engine_of(process), signal.SIGKILL)
        assert process.wait(SECONDS) == 2
        last = process.stderr.read().splitlines()[-1]
        assert last.startswith("bertsmith: the process that computes has ended, as it did 2 times")


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


@pytest.fixture
def heeded_signals():
    """Let programs that a test starts get the signals that nohup, or a script with &, ignores."""
    previous = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGHUP, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
        )
    }
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_lets_finish_what_runs(tmp_path, number):
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
        process.send_signal(number)
        time.sleep(0.2)
        if not statuses:  # a key may be pressed twice
            process.send_signal(number)
        client.join()
        assert statuses == [200]
        assert process.wait(SECONDS) == 128 + number
        name = "Ctrl-C" if number == signal.SIGINT else number.name
        assert f"The server was stopped by {name}. It has finished" in process.stderr.read()


def test_a_server_that_is_stopped_while_it_loads_has_finished_nothing(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with server(folder, *CPU, port=port) as (process, _):
        engine_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        assert process.stderr.read() == "The server was stopped by SIGTERM.\n"


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


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes with ps")
def test_a_port_that_another_one_takes_while_the_models_load_is_one_line(tmp_path):
    folder = save_tiny(tmp_path / "encoder")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with server(folder, *CPU, port=port) as (process, _):
            engine_of(process)  # by then the server has taken the address
            other.listen()
            assert process.wait(SECONDS) == 2
            message = process.stderr.read()
    assert message.startswith(f"bertsmith: Another program listens on 127.0.0.1:{port}.")
    assert len(message.splitlines()) == 1


def test_a_model_of_the_hub_is_served_from_its_cache(tmp_path):
    revision = "0" * 40
    repository = tmp_path / "hub" / "models--org--films"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    save_tiny(repository / "snapshots" / revision)
    offline = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    with server("org/films", *CPU, environment=offline) as (_, line):
        port = port_of(line)
        assert json.loads(send(port, "/info")[1])["model_id"] == "org/films"
        assert json.loads(send(port, "/tokenize", {"inputs": "a film"})[1])[0][0]["special"]


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have only UTF-8 names")
def test_a_folder_may_have_a_name_that_is_not_utf8(tmp_path):
    folder = save_tiny(tmp_path / os.fsdecode(b"caf\xe9"))  # Latin-1
    with refuses(ConfigError, "is not UTF-8", "films=", worded=False):
        parse_model_folders((str(folder),))
    with server(f"films={folder}", *CPU) as (_, line):
        status, content = send(port_of(line), "/info")
    assert status == 200
    assert json.loads(content)["model_id"].endswith(r"/caf\udce9")


def test_names_of_models(tmp_path):
    assert list(parse_model_folders(("runs/a", "b=runs/a/"))) == ["a", "b"]
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    assert parse_model_folders((str(folder), f"a={folder}")) == {"lr=0.1": folder, "a": folder}


@pytest.mark.parametrize("text", ["org/m=runs/a", "=runs/a", "a=", ""])
def test_names_that_no_route_can_have(text):
    with refuses(ConfigError, text):
        parse_model_folders((text,))


def test_an_empty_host_does_not_open_the_server_to_all():
    with refuses(SettingError, "--host", "127.0.0.1"):
        Settings(models=("runs/films",), host="")


def test_a_host_that_is_no_name_is_refused():
    with refuses(ConfigError, "--host: found 'ä..b'"), bind("ä..b", 0):
        pytest.fail("there is no such address")


def test_an_address_of_a_kind_that_the_computer_lacks_is_refused(monkeypatch):
    """A computer without IPv6 refuses the socket itself, as every computer does this family."""
    monkeypatch.setattr(socket, "AF_INET6", 9999)
    with refuses(ConfigError, "--host: found '::1'", worded=False), bind("::1", 0):
        pytest.fail("there is no such family")


def test_answers_are_not_held_back_by_the_system():
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
