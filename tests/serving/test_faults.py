"""A fault of this program is counted, and told in the form that the clients of its path read."""

import asyncio
import json

import pytest

from bertsmith.serving.app import create_app
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.service import Service


async def post(app, path, content):
    """Send a request to an application of ASGI; gives its status and its body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(content).encode()}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path,
             "root_path": "", "query_string": b"", "headers": [], "scheme": "http",
             "server": ("127.0.0.1", 80)}  # fmt: skip
    with pytest.raises(AttributeError):  # the server prints it
        await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize("path, read", [
    ("/v1/embeddings", lambda content: content["error"]["message"]),
    ("/predict", lambda content: content["error"]),
])  # fmt: skip
def test_a_fault_is_counted_and_told(path, read):
    service = Service(EngineSettings(models={}))
    service.models = {"damaged": None}
    status, body = asyncio.run(post(create_app(service), path, {"input": "a"}))
    assert (status, "bug of the server" in read(json.loads(body))) == (500, True)
    assert 'te_request_failure{err="fault"} 1.0' in service.metrics.as_text().decode()
