"""The measurement of a server: its steps and what it says, on a server of known capacity."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict

import pytest
from http_answers import answer, http_server, read_request
from refusals import refuses

from bertsmith.cli import main
from bertsmith.errors import ConfigError, InputError
from bertsmith.serving.bench import (
    complete_url,
    describe_bench,
    measure_server,
    read_bodies,
    table_row,
)
from bertsmith.serving.built_in_texts import built_in_texts

pytestmark = pytest.mark.same_on_all_computers
SERVICE_SECONDS = 0.005
MAX_WAITING = 20


class OneByOne:
    """A server that takes one request at a time, and refuses those behind `MAX_WAITING`."""

    def __init__(self):
        self.statuses = []
        self.heads = set()
        self.bodies = set()
        self._turn = asyncio.Lock()
        self._num_waiting = 0

    async def handle(self, reader, writer):
        while True:
            head, body = await read_request(reader)
            self.heads.add(head)
            self.bodies.add(body)
            self.statuses.append(await self.compute())
            writer.write(answer(self.statuses[-1]))

    async def compute(self):
        if self._num_waiting >= MAX_WAITING:
            return 429
        self._num_waiting += 1
        async with self._turn:
            await asyncio.sleep(SERVICE_SECONDS)
        self._num_waiting -= 1
        return 200


@pytest.fixture
def server():
    """A server in a thread of its own, and its URL."""
    started = Future()

    async def serve():
        model, is_over = OneByOne(), asyncio.Event()
        async with http_server(model.handle) as url:
            started.set_result((model, url, asyncio.get_running_loop(), is_over))
            await is_over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    model, url, loop, is_over = started.result()
    yield model, url
    loop.call_soon_threadsafe(is_over.set)
    thread.join()


def test_a_server_of_known_capacity_is_measured(server):
    model, url = server
    seen = []
    url = complete_url(url)
    result = measure_server(
        url, read_bodies(url), 0.8, on_load=lambda name, load: seen.append((name, load))
    )
    assert 0 < result.saturation <= 1.02 / SERVICE_SECONDS
    assert result.alone.latencies.p50 >= 1000 * SERVICE_SECONDS
    assert list(result.callers)[:2] == [4, 8]
    assert result.at_50.latencies.p50 <= result.at_200.latencies.p50
    assert result.at_50.sent_per_second < result.at_80.sent_per_second
    assert result.at_80.sent_per_second < result.at_200.sent_per_second
    assert set(result.at_200.statuses) == {"200", "429"}
    assert result.at_200.max_waiting >= MAX_WAITING
    assert len(model.bodies) > 1 and model.bodies <= set(read_bodies(url))
    assert model.statuses.count(429) == sum(load.statuses.get("429", 0) for _, load in seen)

    names = [name for name, _ in seen]
    assert names[0] == "one after another" and names[-1] == "one after another, again"
    assert "at 200% of the rate" in names
    assert "429: " in table_row("at 200%", result.at_200)
    text = "\n".join(describe_bench(result))
    assert f"answers {result.saturation:,.0f} requests a second at most" in text
    assert "were refused with status 429" in text
    facts = json.loads(json.dumps(asdict(result)))
    assert facts["at_80"]["latencies"]["p99"] >= facts["at_80"]["latencies"]["p50"]


def test_the_command_prints_a_table_beside_the_result(server, typed, tmp_path):
    model, url = server
    texts = tmp_path / "texts.txt"
    texts.write_text("One text.\nAnother.\n", encoding="utf-8")
    line = ("serve", "--bench", url, "--texts", texts, "--seconds", "0.1", "--api-key", "abc")
    printed = typed(*line, "--json")
    assert json.loads(printed.out)["url"] == f"{url}/embed"
    heading, first, *_ = printed.err.splitlines()
    assert heading.startswith("load ") and first.startswith("one after another")
    assert model.bodies == set(read_bodies(url, texts))
    assert all(b"Authorization: Bearer abc\r\n" in head for head in model.heads)
    assert "requests a second at most" in typed(*line).out


def test_the_command_sends_the_key_of_the_environment(server, typed, monkeypatch):
    model, url = server
    monkeypatch.setenv("BERTSMITH_API_KEY", "sesame")
    typed("serve", "--bench", url, "--seconds", "0.1", "--json")
    assert model.heads
    assert all(b"Authorization: Bearer sesame\r\n" in head for head in model.heads)


@pytest.mark.parametrize("words", [
    ("DIR", "--bench", "http://h:1"), ("DIR", "--texts", "FILE"), ("DIR", "--json"), (),
    ("DIR", "--seconds", "3"), ("--bench", "http://h:1", "--port", "9"),
    ("--bench", "http://h:1", "--device", "cpu"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_refused(refused, words):
    assert "--bench" in refused("serve", *words) or not words


def test_texts_become_bodies_of_the_contract_that_the_path_names(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("One text.\n\nÄnother\n", encoding="utf-8")
    tei = read_bodies("http://host/embed", file)
    assert [json.loads(body) for body in tei] == [{"inputs": "One text."}, {"inputs": "Änother"}]
    openai = read_bodies("http://host/v1/embeddings", file)
    assert json.loads(openai[0]) == {"input": "One text."}
    own = tmp_path / "bodies.jsonl"
    own.write_text('{"inputs": ["a", "b"]}\n', encoding="utf-8")
    assert read_bodies("http://host/embed", own) == [b'{"inputs": ["a", "b"]}']


def test_built_in_texts_have_5_to_200_words():
    lengths = [len(text.split()) for text in built_in_texts()]
    assert min(lengths) == 5 and 150 < max(lengths) <= 200
    assert len(set(built_in_texts())) == len(lengths) > 30


def test_files_without_texts_are_refused(tmp_path):
    empty, broken = tmp_path / "empty.txt", tmp_path / "broken.jsonl"
    empty.write_text("\n \n", encoding="utf-8")
    with refuses(InputError, str(empty)):
        read_bodies("http://host/embed", empty)
    for line in ('{"a": ', "[" * 100_000):
        broken.write_text(f"{{}}\n{line}\n", encoding="utf-8")
        with refuses(InputError, str(broken), "text 2"):
            read_bodies("http://host/embed", broken)


def test_a_url_without_path_means_embed():
    assert (
        complete_url("http://host:80") == complete_url("http://host:80/") == "http://host:80/embed"
    )
    assert complete_url("http://host/predict") == "http://host/predict"


def test_a_url_without_server_is_refused(unused_url):
    with refuses(ConfigError, unused_url, worded=False):
        measure_server(unused_url, [b"{}"], 0.1)


def test_a_refused_bench_prints_no_table(unused_url, capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--bench", unused_url])
    printed = capsys.readouterr()
    assert printed.out == "" and unused_url in printed.err and "answered/s" not in printed.err


@pytest.fixture
def unused_url():
    """The URL of a port on which nobody listens: that of a socket that is bound only."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/embed"


def test_a_server_that_refuses_the_first_text_is_named(server):
    model, url = server

    async def refuse():
        return 404

    model.compute = refuse
    with refuses(ConfigError, "404", "such as /predict", worded=False):
        measure_server(f"{url}/nothing", [b"{}"], 0.1)


def test_the_client_needs_no_torch():
    code = "import sys, bertsmith.serving.bench; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
