"""Pretend that the tests run on one kind of computer, so that they have the same results on all.

bertsmith measures the computer to choose the precision, the path of attention and the number of
processes. In tests, the choices come from stored measurements instead: `--computing NAME` names one
of `CHOICES`, and the tests must pass with each. A whole run notes in pytest's cache which choices
each test asked for. `--only-computing` runs only the tests that asked for a choice which this kind
of computer makes in another way. It leaves out those marked `same_on_all_computers`: tests whose
outcome no rounding can change, such as the labels of a table or which processes end when one is
killed. Nor does it open pages in a browser.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import torch
from opened_files import OpenedFiles

from bertsmith.model import int8, precision_speeds, prepacked
from bertsmith.model.attention_paths import ATTENTION_LENGTHS, measured_paths
from bertsmith.system import hardware, matrix_products, measurements
from bertsmith.system.cores import available_cores
from bertsmith.system.matrix_products import ProductSpeeds, threads_key

CORES = 2
"""Number of threads that tests may ask for, also on a computer with one core."""
MAX_THREADS = 16
"""Largest number of threads for which there are stored measurements."""
CACHE_KEY = "computing/choices"
"""Key in pytest's cache of the choices that each test asked for."""
ASKED = frozenset({"attention", "precision", "threads", "packing"})
"""What a test may ask for: the path of attention or another measurement, the precision `auto`, the
number of threads for a training that names none, and whether oneDNN packs weights."""
ASKED_OF_PROGRAMS = ASKED - {"packing"}
"""What a program that a test starts may ask for: oneDNN is hidden from this process alone."""
OPTIONS = {"--precision": "precision", "--threads": "threads"}
"""Options with which the line of a program names a choice, instead of asking for it."""


@dataclass(frozen=True)
class Choices:
    """The choices that bertsmith makes on one kind of computer."""

    precision: str
    attention: str
    threads: int = 1
    has_onednn: bool = True
    """Whether oneDNN is used; without it, weights are not packed, and there is no int8."""
    repeated: frozenset[str] = ASKED
    """A test that asked for one of these is repeated with `--only-computing`."""
    folders: frozenset[str] | None = None
    """Folders of the tests that are repeated; None stands for all."""

    def repeats(self, test: str, asked: Collection[str]) -> bool:
        """Return whether `--only-computing` repeats a test, which asked for these choices.

        Args:
            test: its id, which begins with its path.
        """
        folder = PurePosixPath(test.partition("::")[0]).parent.name
        is_in_folders = self.folders is None or folder in self.folders
        return is_in_folders and not self.repeated.isdisjoint(asked)


# Each choice is made in another way by at least one kind that repeats the tests which ask for it;
# of those that ask for packing, the ones in some folders.
CHOICES = {
    "fp32-explicit": Choices("fp32", "explicit"),
    "bf16-fused-2": Choices(
        "bf16", "fused", threads=2, repeated=frozenset({"precision", "threads"})
    ),
    # The folders of the rooms that load weights and compute with them, and of commands and pages:
    # what other rooms do with a model's outputs is the same however its weights lie in memory.
    "fp32-fused-unpacked": Choices(
        "fp32",
        "fused",
        has_onednn=False,
        repeated=frozenset({"packing"}),
        folders=frozenset({"commands", "model", "system", "tasks", "tests", "training"}),
    ),
    "fp32-fused": Choices("fp32", "fused"),
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
        self.asked: dict[str, set[str]] = {}
        """The choices that each test asked for, by its id."""
        self.asked_in_fixtures: dict[Any, set[str]] = {}
        self.fixtures: list[Any] = []
        """The fixtures that are being set up; each one is needed by the one before it."""
        self.asked_of_programs: set[str] = set()
        """Choices that the programs which this test has started do not name in their lines."""
        self.item: pytest.Item | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="bertsmith-tests-"))
        os.environ["XDG_CACHE_HOME"] = str(self.folder)
        os.environ["OMP_NUM_THREADS"] = str(choices.threads)
        torch.set_num_threads(choices.threads)
        if not choices.has_onednn:
            torch.backends.mkldnn.set_flags(False)
        cores = max(CORES, available_cores())
        hardware.available_cores = lambda: cores
        pin(choices.attention, **({} if choices.precision == "bf16" else SLOW_BF16))
        self.opened_files = self.watch_other_processes()
        sys.addaudithook(self.note_event)
        ProductSpeeds.precision = property(  # type: ignore[assignment, method-assign]
            self.noting("precision", ProductSpeeds.precision.fget)  # type: ignore[attr-defined]
        )
        precision_speeds.measured_products = self.noting(
            "precision", precision_speeds.measured_products
        )
        hardware.usable_threads = self.noting("threads", hardware.usable_threads)
        for module in (int8, prepacked, matrix_products):
            module.has_onednn = self.noting("packing", module.has_onednn)

    def watch_other_processes(self) -> OpenedFiles | None:
        """Give this process a copy of the measurements, and watch who opens the original."""
        original = measurements._cache_path()
        own = shutil.copy(original, self.folder / measurements.CACHE_NAME)
        path_of_environment = measurements._cache_path

        def own_path() -> Path:
            path = path_of_environment()
            return Path(own) if path == original else path

        try:
            opened_files = OpenedFiles(original.parent)
        except OSError:
            return None
        measurements._cache_path = own_path
        return opened_files

    def noting(self, choice: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, which then also notes that a choice was asked for."""

        @wraps(function)
        def call(*args: Any) -> Any:
            self.note(choice)
            return function(*args)

        return call

    def note(self, *choices: str) -> None:
        """Note that the test and the fixtures that run now ask for choices."""
        for fixture in self.fixtures:
            self.asked_in_fixtures.setdefault(fixture, set()).update(choices)
        if self.item is not None:
            self.asked.setdefault(self.item.nodeid, set()).update(choices)

    def note_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Note the test and fixtures that read measurements, and programs that are started."""
        if event == "open" and str(args[0]).endswith(measurements.CACHE_NAME):
            self.note("attention")
        if event == "subprocess.Popen":
            named = {choice for option, choice in OPTIONS.items() if option in args[1]}
            asked = ASKED_OF_PROGRAMS - named
            self.asked_of_programs |= asked
            if self.opened_files is None:
                self.note(*asked)

    def note_other_processes(self) -> None:
        """Note the test and fixtures if another process has read measurements for them."""
        if self.opened_files is not None and (
            measurements.CACHE_NAME in self.opened_files.take_names()
        ):
            self.note(*(self.asked_of_programs or ASKED_OF_PROGRAMS))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.item = item
        self.ran.add(item.nodeid)
        self.asked_of_programs = set()
        measured_paths.cache_clear()  # otherwise only the first test would read the measurements
        try:
            return (yield)
        finally:
            self.note_other_processes()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        self.fixtures.append(fixturedef)
        try:
            return (yield)
        finally:
            self.note_other_processes()
            self.fixtures.pop()

    def pytest_runtest_call(self, item: Any) -> None:
        """Note what the fixtures of a test have asked for, even if that was for an earlier test."""
        for fixtures in item._fixtureinfo.name2fixturedefs.values():
            for fixture in fixtures:
                if asked := self.asked_in_fixtures.get(fixture):
                    self.note(*asked)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
