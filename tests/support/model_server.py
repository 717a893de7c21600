"""A running `bertsmith serve`, and requests to it without a client's library."""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import RECORDS
from tiny_models import make_sentence_encoder, save_tiny

from bertsmith.model.config_file import TASK_SETTINGS

TIMEOUT = 60.0
NLI_LABELS = ("contradiction", "entailment", "neutral")
FP32 = ("--device", "cpu", "--precision", "fp32", "--threads", "1")


@dataclass(frozen=True)
class Answer:
    """The response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error."""
        error: str = self.json["error"]
        return error


@dataclass(frozen=True)
class ModelServer:
    """The address of a server, and the folders that it serves."""

    address: str
    folders: Mapping[str, Path] = field(default_factory=dict)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=TIMEOUT)

    def send(
        self, method: str, path: str, content: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request; `content` is sent as JSON, or as it is if it is bytes."""
        connection = self.connect()
        try:
            body = content if isinstance(content, bytes | None) else json.dumps(content)
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def post(self, path: str, content: Any, **headers: str) -> Answer:
        return self.send("POST", path, content, headers)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, headers)


def save_one_of_each_head(directory: Path) -> dict[str, Path]:
    """Write a tiny model of random weights for each head; return the folders by heads.

    The model `vectors` has no head, and `nli` is a classifier of entailment. Of the classifiers
    `single` and `paired`, one was trained on single texts and one on pairs; `number`, a model of
    numbers, on single texts.
    """
    folders = {}
    for head, (labels, _, _) in RECORDS.items():
        name = head or "vectors"
        folders[name] = save_tiny(
            directory / name, *[head] * (head not in ("", "embed")), labels=labels
        )
    make_sentence_encoder(folders["embed"])
    prompts = {"prompts": {"query": "the film "}}
    (folders["embed"] / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    folders["nli"] = save_tiny(directory / "nli", "classify", labels=NLI_LABELS, seed=3)
    for name, head, labels, pairs in (
        ("single", "classify", ("neg", "pos"), False),
        ("paired", "classify", ("neg", "pos"), True),
        ("number", "regress", RECORDS["regress"][0], False),
    ):
        folders[name] = save_tiny(directory / name, head, labels=labels)
        config = json.loads((folders[name] / "config.json").read_text())
        settings = config.get(TASK_SETTINGS, {"task": head})
        config[TASK_SETTINGS] = {**settings, "pairs": pairs}
        (folders[name] / "config.json").write_text(json.dumps(config))
    return folders


@contextmanager
def serving(folders: Mapping[str, Path], *options: object) -> Iterator[ModelServer]:
    """Serve model folders by their names on a free port until the block ends."""
    words = [f"{name}={folder}" for name, folder in folders.items()]
    with running(words, *FP32, *options) as address:
        yield ModelServer(address, folders)


@contextmanager
def running(words: Sequence[object], *options: object) -> Iterator[str]:
    """Run `bertsmith serve` on a free port; yield the address that it prints."""
    command = [sys.executable, "-m", "bertsmith", "serve", *words, "--port", 0, *options]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        address = re.match(r"(http://\S+) serves ", line)
        assert address is not None, line
        yield address[1]
    finally:
        process.terminate()
        process.wait(TIMEOUT)
        process.stdout.close()


def close(values: Any) -> Any:
    """Return values that equal others up to rounding."""
    return pytest.approx(values, abs=1e-5)


def near(rows: Any) -> Any:
    """Return rows, in lists of any depth, that equal others up to the rounding of their scores.

    The last bits of a text's scores depend on the texts that are computed with it.
    """
    if isinstance(rows, list):
        return [near(row) for row in rows]
    return rows | {"score": close(rows["score"])}


def assert_close(vectors: Any, expected: Any) -> None:
    """Compare vectors of the server with those of this process, up to rounding.

    The two processes may compute in different ways, so that the last bits differ.
    """
    np.testing.assert_allclose(np.array(vectors, dtype=np.float32), expected, atol=1e-5)
