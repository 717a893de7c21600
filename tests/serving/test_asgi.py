"""The application under another server of ASGI, and its settings in the environment."""

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest
from model_server import TIMEOUT, ModelServer
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.commands.settings.serve import Settings
from bertsmith.errors import ConfigError
from bertsmith.serving.app import KeyCheck
from bertsmith.serving.asgi import create_app_from_environment
from bertsmith.serving.environment import read_api_key
from bertsmith.serving.http_client import HttpClient


@pytest.fixture
def port():
    """A port that is free a moment before it is used."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.same_on_all_computers
def test_another_server_runs_the_application(tmp_path, port):
    folder = save_tiny(tmp_path / "my films", "classify", labels=("bad", "good"))
    command = [sys.executable, "-m", "uvicorn", "--factory", "--port", str(port),
               "bertsmith.serving.asgi:create_app_from_environment"]  # fmt: skip
    environment = {"BERTSMITH_SERVE": f"'films={folder}'", "BERTSMITH_API_KEY": "sesame"}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    try:
        server = ModelServer(f"http://127.0.0.1:{port}")
        end = time.monotonic() + TIMEOUT
        while "Uvicorn running" not in process.stderr.readline():
            assert time.monotonic() < end and process.poll() is None
        assert server.post("/predict", {"inputs": "a film"}).status == 401
        answer = server.post("/predict", {"inputs": "a film"}, Authorization="Bearer sesame")
        assert {row["label"] for row in answer.json} == {"bad", "good"}
    finally:
        process.terminate()
        process.wait(TIMEOUT)
        process.stderr.close()


def test_models_and_key_have_to_be_named(monkeypatch):
    monkeypatch.delenv("BERTSMITH_SERVE", raising=False)
    with refuses(ConfigError, "BERTSMITH_SERVE"):
        create_app_from_environment()
    monkeypatch.setenv("BERTSMITH_SERVE", "'films=my runs/sentiment")
    with refuses(ConfigError, "BERTSMITH_SERVE", "not closed"):
        create_app_from_environment()
    monkeypatch.setenv("BERTSMITH_API_KEY", "")
    with refuses(ConfigError, "BERTSMITH_API_KEY"):
        read_api_key()
    monkeypatch.delenv("BERTSMITH_API_KEY")
    assert read_api_key() is None


@pytest.mark.parametrize("key, found", [
    ("sesame\n", "a line break at its end"),
    ("sesame ", "a blank at its end"),
    (" sesame", "a blank as character 1"),
    ("ses\x7fame", "a control character as character 4"),
], ids=ascii)  # fmt: skip
def test_a_key_that_no_header_can_hold_is_refused(key, found, monkeypatch):
    monkeypatch.setenv("BERTSMITH_API_KEY", key)
    with refuses(ConfigError, "BERTSMITH_API_KEY", found) as caught:
        read_api_key()
    assert "ame" not in caught.value.message.replace("name", "")
    with refuses(ConfigError, "--api-key", found):
        Settings(models=("films=runs/films",), api_key=key)


def test_a_key_may_have_any_bytes(monkeypatch):
    passed = []

    async def app(scope, receive, send):
        passed.append(scope["path"])

    monkeypatch.setenv("BERTSMITH_API_KEY", os.fsdecode(b"caf\xe9"))  # Latin-1
    header = (b"authorization", b"Bearer caf\xe9")
    scope = {"type": "http", "method": "POST", "path": "/embed", "headers": [header]}
    asyncio.run(KeyCheck(app, read_api_key())(scope, None, None))
    assert passed == ["/embed"]
    client = HttpClient("http://127.0.0.1:8080", 1, read_api_key())
    assert b"\r\nAuthorization: Bearer caf\xe9\r\n" in client.build_request(b"{}")
