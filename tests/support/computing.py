"""Pretend that the tests run on one kind of computer, so that they have the same results on all.

bertsmith measures the computer to choose the precision, the path of attention and the number of
processes. In tests, the choices come from stored measurements instead: `--computing NAME` names one
of `CHOICES`, and the tests must pass with each. A whole run notes in pytest's cache which tests
read a measurement; `--only-computing` runs only these tests, so that they can be repeated with
other choices.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from bertsmith.model.attention_paths import ATTENTION_LENGTHS, measured_paths
from bertsmith.system import hardware, measurements
from bertsmith.system.cores import available_cores
from bertsmith.system.matrix_products import ProductSpeeds, threads_key

CORES = 2
"""Number of threads that tests may ask for, also on a computer with one core."""
MAX_THREADS = 16
"""Largest number of threads for which there are stored measurements."""
CACHE_KEY = "computing/asked"
"""Key in pytest's cache of the list of tests that depend on a measurement."""


@dataclass(frozen=True)
class Choices:
    """The choices that bertsmith makes on one kind of computer."""

    precision: str
    attention: str
    threads: int = 1
    has_onednn: bool = True
    """Whether oneDNN is used; without it, weights are not packed, and there is no int8."""


CHOICES = {
    "fp32-explicit": Choices("fp32", "explicit"),
    "bf16-fused": Choices("bf16", "fused"),
    "bf16-explicit-2": Choices("bf16", "explicit", threads=2),
    "fp32-fused-unpacked": Choices("fp32", "fused", has_onednn=False),
}
USES = [
    f"{dtype} {use} {length}"
    for dtype in ("fp32", "bf16")
    for use in ("reading", "learning")
    for length in ATTENTION_LENGTHS
]
PRODUCTS = {
    "fp32_gflops": 100.0, "fp32_medium_gflops": 200.0, "fp32_medium_error": 4e-7,
    "bf16_gflops": 400.0, "bf16_error": 3e-3,
}  # fmt: skip
SLOW_BF16 = {"bf16_gflops": 50.0}


def speeds(**changes: float) -> ProductSpeeds:
    """Make speeds at which bf16 is at least twice as fast as fp32, except for `changes`."""
    return ProductSpeeds(**(PRODUCTS | changes))


def pin(attention: str = "fused", int8_gflops: float = 800.0, **changes: float) -> None:
    """Write measurements into the cache in `XDG_CACHE_HOME`, as if they were of this machine.

    They are marked as pinned, so that they are not measured again.
    """
    values: dict[str, Mapping[str, Any]] = {}
    before = torch.get_num_threads()
    for number in range(1, MAX_THREADS + 1):
        torch.set_num_threads(number)
        values[threads_key("products")] = PRODUCTS | changes
        values[threads_key("int8")] = {"int8_gflops": int8_gflops, "int8_error": 1.5e-2}
    torch.set_num_threads(before)
    values[f"{measurements.machine_key()} | attention"] = dict.fromkeys(USES, attention)
    now = datetime.now(UTC).isoformat()
    stored = {
        key: {"value": value, "measured_at": now, "load": 0.0, "is_pinned": True}
        for key, value in values.items()
    }
    path = measurements._cache_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored))
    measured_paths.cache_clear()


class ComputingPlugin:
    """Plugin of pytest that pretends one kind of computer, and notes which tests depend on it."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.ran: set[str] = set()
        self.dependent: set[str] = set()
        self.dependent_fixtures: list[Any] = []
        self.fixtures: list[Any] = []
        self.item: pytest.Item | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="bertsmith-tests-"))
        os.environ["XDG_CACHE_HOME"] = str(self.folder)
        os.environ["OMP_NUM_THREADS"] = str(choices.threads)
        torch.set_num_threads(choices.threads)
        if not choices.has_onednn:
            torch.backends.mkldnn.set_flags(False)
        cores = max(CORES, available_cores())
        hardware.available_cores = lambda: cores
        self.pin()
        sys.addaudithook(self.note_event)

    def pin(self) -> None:
        pin(self.choices.attention, **({} if self.choices.precision == "bf16" else SLOW_BF16))

    def note_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Note the test and fixtures that read measurements or start another process."""
        if event == "subprocess.Popen" or (
            event == "open" and str(args[0]).endswith(measurements.CACHE_NAME)
        ):
            self.dependent_fixtures += self.fixtures
            if self.item is not None:
                self.dependent.add(self.item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.item = item
        self.ran.add(item.nodeid)
        measured_paths.cache_clear()  # otherwise only the first test would read the measurements
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        self.fixtures.append(fixturedef)
        try:
            return (yield)
        finally:
            self.fixtures.pop()

    def pytest_runtest_call(self, item: Any) -> None:
        """Note a test if one of its fixtures has read measurements, even for an earlier test."""
        own = [each for several in item._fixtureinfo.name2fixturedefs.values() for each in several]
        if any(fixture in self.dependent_fixtures for fixture in own):
            self.dependent.add(item.nodeid)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
