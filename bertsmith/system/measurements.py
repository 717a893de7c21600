"""Measurements of this machine, kept on disk for later processes.

Each has a key. The key of a measurement of a CPU names the processor, the instructions that torch
uses and torch's version, and for some measurements also the number of threads. The key for a GPU
names the device and torch's version.

A process repeats a stored measurement if it is a month old, if other programs kept the cores busy
while it was taken, or if a short trial contradicts it. While the cores are busy, no measurement is
repeated, because the new one would be no better. A pinned measurement (`"is_pinned": true` in the
file) is never repeated.
"""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from bertsmith.errors import InputError
from bertsmith.system.files import write_json
from bertsmith.system.json_text import parse_json

T = TypeVar("T")

MAX_LOAD = 0.2
"""Largest share of the cores that other programs may use while speeds are measured."""
LOAD_SECONDS = 0.1
"""Seconds for which the load of the cores is watched before a measurement is repeated."""
MAX_AGE = timedelta(days=30)
"""Age from which on a measurement is repeated."""

INSTRUCTION_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Environment variables that hide instructions from oneDNN and MKL; `ATEN_CPU_CAPABILITY`, which
hides them from torch itself, shows in `get_cpu_capability`."""

CORE_TIMES = Path("/proc/stat")
"""Linux's times of each core: busy, idle, waiting."""

CACHE_NAME = "measurements.json"

# A line of CORE_TIMES has, after the name of a core, its times in ticks: user, nice, system, idle,
# iowait, irq, softirq, steal.
NUM_CORE_TIMES = 8
IDLE = 3
IOWAIT = 4

_checked: set[str] = set()
"""Keys that this process has looked up; a stored measurement is checked at the first look-up."""


@dataclass(frozen=True)
class Measured(Generic[T]):
    """A measured value, when it was measured, and how busy the cores were."""

    value: T
    measured_at: str
    """UTC, in ISO format."""
    load: float | None
    """Share of the cores that other programs used; None where the system does not count it."""
    is_pinned: bool = False
    """Whether someone set the value by hand, so that it is neither measured again nor forgotten."""

    def __post_init__(self) -> None:
        # Entries of the file may have been changed by hand.
        if not isinstance(self.measured_at, str):
            raise ValueError(f"measured_at is {self.measured_at!r}, not a time")
        # A pinned value never becomes old.
        if not self.is_pinned and datetime.fromisoformat(self.measured_at).tzinfo is None:
            raise ValueError(f"measured_at is {self.measured_at!r}, without a time zone")
        if self.load is not None and type(self.load) not in (int, float):
            raise ValueError(f"load is {self.load!r}, not a number")

    @property
    def is_busy(self) -> bool:
        """Whether other programs used so much of the cores that the value may be wrong."""
        return self.load is not None and self.load > MAX_LOAD

    @property
    def is_old(self) -> bool:
        return datetime.now(UTC) - datetime.fromisoformat(self.measured_at) > MAX_AGE


def remember(
    key: str,
    measure: Callable[[], T],
    decode: Callable[..., T],
    *,
    is_wrong: Callable[[T], bool] = lambda value: False,
) -> Measured[T]:
    """Return the measurement stored under `key`, or take it and store it.

    Args:
        decode: builds the value, a dataclass, from its fields, which are passed as keyword
            arguments; usually its class.
        is_wrong: runs a trial, and returns whether it contradicts the stored value. If so, and if
            the cores are not busy, all measurements of this CPU are forgotten: this measurement is
            taken now, all others when a process needs them. `is_wrong` is called at most once per
            process and key, and not for a value that was measured while the cores were busy.
    """
    measurement = _stored(key, decode)
    is_first = key not in _checked
    _checked.add(key)
    if measurement is not None and measurement.is_pinned:
        return measurement
    if measurement is not None and is_first:
        is_disproved = not measurement.is_busy and is_wrong(measurement.value)
        if (is_disproved or measurement.is_busy or measurement.is_old) and _is_quiet():
            measurement = None
            if is_disproved:
                forget(machine_key())
    if measurement is not None:
        return measurement
    value, load = load_during(measure)
    measurement = Measured(value, datetime.now(UTC).isoformat(timespec="seconds"), load)
    _write({**_read(), key: asdict(measurement)})
    return measurement


def check_numbers(speeds: Any) -> None:
    """Check a dataclass of numbers read from the file, which someone may have changed by hand.

    Raises:
        ValueError: a field is not a number, or is negative.
    """
    for name, number in asdict(speeds).items():
        if type(number) not in (int, float) or number < 0:
            raise ValueError(f"{name} is {number!r}")


def forget(device_key: str) -> None:
    """Remove the measurements of a CPU (`machine_key`) or a GPU (`gpu_key`), except pinned ones.

    Those of other devices stay, because several machines may share the home folder.
    """

    def is_forgotten(key: str, entry: Any) -> bool:
        is_pinned = isinstance(entry, dict) and entry.get("is_pinned") is True
        return key.startswith(f"{device_key} | ") and not is_pinned

    _write({key: entry for key, entry in _read().items() if not is_forgotten(key, entry)})


def shortest_seconds(run: Callable[[], object], seconds: float) -> float:
    """Call `run` repeatedly for `seconds`; return the shortest time of a call, in seconds.

    It is the least disturbed one, as other programs only add time.
    """
    run()  # not timed, since a first call is slower: it allocates memory, for example
    best = float("inf")
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best if best < float("inf") else seconds  # there was no time for a call


def machine_key() -> str:
    """Name the processor, the instructions that torch uses, and torch's version."""
    return f"{processor_name()} | {instructions()} | torch {torch.__version__}"


def gpu_key(device: torch.device) -> str:
    """Name a CUDA device and torch's version."""
    return f"{torch.cuda.get_device_name(device)} | torch {torch.__version__}"


def instructions() -> str:
    """Name the instructions that torch uses here, and variables that hide some of them."""
    limits = [f"{name}={os.environ[name]}" for name in INSTRUCTION_LIMITS if name in os.environ]
    return " ".join([torch.backends.cpu.get_cpu_capability(), *limits])


def processor_name() -> str:
    """Name the processor, with a hash of its features.

    In virtual machines several processors with different features have one model name, for example
    "Intel Xeon Processor".
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts: dict[str, str] = {}
    for line in lines:
        name, colon, fact = line.partition(":")
        if colon:
            facts.setdefault(name.strip(), fact.strip())  # the facts of the first core are kept
    features = facts.get("flags") or facts.get("Features") or ""
    model = facts.get("model name") or platform.machine()
    return f"{model} ({hashlib.sha256(features.encode()).hexdigest()[:8]})"


class _CoreSeconds(NamedTuple):
    """Seconds since boot of all cores that this process may use."""

    busy: float
    total: float


def load_during(work: Callable[[], T]) -> tuple[T, float | None]:
    """Return the result of `work`, and the share of the cores that other processes used meanwhile.

    The share is None where the system does not count it.
    """
    before = _core_seconds()
    start = time.process_time()
    result = work()
    own_seconds = time.process_time() - start
    after = _core_seconds()
    if before is None or after is None or after.total == before.total:
        return result, None
    busy_seconds = after.busy - before.busy
    others = max(0.0, busy_seconds - own_seconds)
    return result, round(others / (after.total - before.total), 2)


def _stored(key: str, decode: Callable[..., T]) -> Measured[T] | None:
    """Return the measurement stored under `key`; None if there is none that can be read."""
    # These errors mean that it is absent, of another version, or changed by hand.
    with contextlib.suppress(KeyError, TypeError, ValueError):
        entry = _read()[key]
        return Measured(
            decode(**entry["value"]),
            entry["measured_at"],
            entry["load"],
            entry.get("is_pinned") is True,
        )
    return None


def _is_quiet() -> bool:
    """Return whether other programs leave the cores free now, or the system does not tell."""
    _, load = load_during(lambda: time.sleep(LOAD_SECONDS))
    return load is None or load <= MAX_LOAD


def _core_seconds() -> _CoreSeconds | None:
    """Read the times of this process's cores; None if the system does not count them."""
    busy = total = 0
    try:
        names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        for line in CORE_TIMES.read_text().splitlines():
            words = line.split()
            if words and words[0] in names:
                times = list(map(int, words[1 : 1 + NUM_CORE_TIMES]))
                total += sum(times)
                busy += sum(times) - times[IDLE] - times[IOWAIT]
        ticks_per_second = os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return _CoreSeconds(busy / ticks_per_second, total / ticks_per_second)


def _cache_path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bertsmith" / CACHE_NAME


def _read() -> dict[str, Any]:
    try:
        return dict(parse_json(_cache_path().read_text(encoding="utf-8")))
    except (OSError, RuntimeError, ValueError, TypeError):
        return {}  # no home folder; absent or damaged


def _write(entries: dict[str, Any]) -> None:
    # The cache is only a convenience: a full disk or a missing home folder must not stop a run.
    with contextlib.suppress(InputError, RuntimeError):
        write_json(_cache_path(), entries)
