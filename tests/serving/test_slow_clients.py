"""A client that sends very slowly is given up, wherever in a request it is."""

import asyncio
import json
import time

import pytest
import uvicorn

from bertsmith.serving import http_protocol
from bertsmith.serving.app import create_app
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.http_protocol import BoundedHttpProtocol
from bertsmith.serving.service import Limits, Service

SECONDS = 60
LIMIT = 0.5
HEAD = b"POST /%s HTTP/1.1\r\nhost: a\r\ncontent-length: 40\r\n"
ENDLESS = b" " * 1000


async def application(scope, receive, send):
    """Answer at once below /unread; elsewhere read the body first, then be slow."""
    if scope["path"] != "/unread":
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(3 * LIMIT)
    headers = [(b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"done"})


async def exchange(*parts, drip=b""):
    """Send parts, then a byte of `drip` every tenth of the limit, until the server closes.

    Returns what the server answered, and after how many seconds it closed.
    """
    config = uvicorn.Config(
        application, port=0, http=BoundedHttpProtocol, lifespan="off", log_level="error",
        timeout_keep_alive=SECONDS,
    )  # fmt: skip
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started_at = time.monotonic()
    answer = asyncio.create_task(reader.read())
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(LIMIT / 10)
        for number in drip:
            if answer.done():
                break
            writer.write(bytes([number]))
            await asyncio.sleep(LIMIT / 10)
        received = await asyncio.wait_for(answer, SECONDS)
        return received, time.monotonic() - started_at
    finally:
        writer.close()
        server.should_exit = True
        await running


@pytest.mark.parametrize("case", ["nothing", "head", "empty lines", "unread body", "second head"])
def test_a_slow_client_is_given_up(monkeypatch, case):
    monkeypatch.setattr(http_protocol, "SENDING_SECONDS", LIMIT)
    unread = HEAD % b"unread" + b"\r\n"
    parts, drip = {
        "nothing": ((), b""),
        "head": ((HEAD % b"unread",), b"x" * 1000),
        "empty lines": ((unread + b" " * 40,), b"\r\n" * 500),
        "unread body": ((unread.replace(b"40", b"999"),), ENDLESS),
        "second head": ((unread + b" " * 40,), HEAD % b"unread" + b"x" * 900),
    }[case]
    answer, seconds = asyncio.run(exchange(*parts, drip=drip))
    assert answer.startswith(b"HTTP/1.1 200 ") == (case not in ("nothing", "head"))
    assert LIMIT * 0.9 < seconds < 30 * LIMIT


def test_a_request_that_takes_long_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(http_protocol, "SENDING_SECONDS", LIMIT)
    whole = HEAD % b"read" + b"connection: close\r\n\r\n" + b" " * 40
    answer, seconds = asyncio.run(exchange(whole))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert seconds > 2 * LIMIT


def test_a_body_that_is_read_is_not_limited_by_the_connection(monkeypatch):
    monkeypatch.setattr(http_protocol, "SENDING_SECONDS", LIMIT)
    head = HEAD % b"read" + b"connection: close\r\n\r\n"
    answer, seconds = asyncio.run(exchange(head, drip=b" " * 40))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert seconds > 4 * LIMIT


def test_a_body_that_arrives_slowly_is_refused_under_any_server():
    service = Service(EngineSettings(models={}), Limits(timeout_seconds=LIMIT))
    service.models = {"films": None}
    sent = []

    async def receive():
        await asyncio.sleep(LIMIT / 10)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/embeddings",
             "root_path": "", "query_string": b"", "headers": [], "scheme": "http",
             "server": ("127.0.0.1", 80)}  # fmt: skip
    asyncio.run(asyncio.wait_for(create_app(service)(scope, receive, send), SECONDS))
    assert sent[0]["status"] == 408
    assert f"within {LIMIT:g} seconds" in json.loads(sent[1]["body"])["error"]["message"]
    assert service.arriving_bytes.num_held == 0
