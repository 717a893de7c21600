"""One server for all tests of this folder."""

import sys
from collections.abc import Iterator

import pytest
from model_server import ModelServer, save_one_of_each_head, serving

import bertsmith


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """A server with a tiny model of every head, each by the name of its head."""
    folders = save_one_of_each_head(tmp_path_factory.mktemp("served"))
    with serving(folders) as running:
        yield running


@pytest.fixture(scope="session")
def strict_server(server: ModelServer) -> Iterator[ModelServer]:
    """A server with the key `secret` and low limits, for two of the models."""
    chosen = {name: server.folders[name] for name in ("classify", "vectors")}
    limits = ("--max-texts", 4, "--max-queue", 6, "--max-body-bytes", 500, "--max-text-tokens", 100)
    with serving(chosen, "--api-key", "secret", *limits) as running:
        yield running


@pytest.fixture(scope="session")
def local(server):
    """Give the predictor of a served model in this process, by its name."""
    predictors = {}

    def load(name):
        if name not in predictors:
            predictors[name] = bertsmith.load(server.folders[name], device="cpu", precision="fp32")
        return predictors[name]

    return load


@pytest.fixture(scope="session")
def trims():
    """Calls of glibc's malloc_trim, an entry for each."""
    calls = []

    def hear(event, args):
        if event == "ctypes.dlsym" and args[1] == "malloc_trim":
            calls.append(args)

    sys.addaudithook(hear)  # for good: Python has no way to take it back
    return calls
