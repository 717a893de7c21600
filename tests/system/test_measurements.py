"""What was measured is kept, and measured again where it may be wrong."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bertsmith.commands.hardware import describe_time
from bertsmith.system import measurements
from bertsmith.system.measurements import Measured, forget, load_during, machine_key, remember

NOW = datetime.now(UTC).isoformat(timespec="seconds")
needs_load = pytest.mark.skipif(
    not measurements.CORE_TIMES.exists(), reason="the system does not tell its load"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "bertsmith" / "measurements.json"


def store(cache: Path, value: Any, measured_at: str = NOW, load: float | None = None) -> None:
    cache.parent.mkdir(exist_ok=True)
    entry = {"value": value, "measured_at": measured_at, "load": load}
    cache.write_text(json.dumps({"speed": entry}))
    measurements._checked.clear()  # as in a new process


def test_the_cache_is_used_and_a_damaged_one_is_measured_anew(cache: Path) -> None:
    numbers = count()
    take = [remember("speed", lambda: next(numbers), int).value for _ in range(3)]
    assert take == [0, 0, 0]
    assert remember("other", lambda: next(numbers), int).value == 1
    assert set(json.loads(cache.read_text())) == {"speed", "other"}
    for damaged in ("{ damaged", '{"speed": 3}', '{"speed": {"value": []}}', "[]"):
        cache.write_text(damaged)
        again = remember("speed", lambda: next(numbers), int).value
        assert again > 1
        assert remember("speed", lambda: next(numbers), int).value == again
    forget()
    assert not cache.exists()
    forget()


@pytest.mark.parametrize(
    ("stored", "is_kept"),
    [
        ({}, True),
        ({"load": 0.0}, True),
        ({"load": 0.9}, False),
        ({"measured_at": (datetime.now(UTC) - timedelta(days=29)).isoformat()}, True),
        ({"measured_at": (datetime.now(UTC) - timedelta(days=31)).isoformat()}, False),
        ({"value": -1}, False),
    ],
)
def test_what_may_be_wrong_is_measured_again_once(
    stored: dict[str, Any], is_kept: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A system that does not tell how busy it is: other programs may run beside the tests.
    monkeypatch.setattr(measurements, "CORE_TIMES", cache)
    store(cache, **{"value": 5, **stored})
    numbers = count()

    def found() -> int:
        def is_doubtful(value: int) -> bool:
            return value < 0

        return remember("speed", lambda: next(numbers), int, is_doubtful=is_doubtful).value

    assert [found(), found()] == ([5, 5] if is_kept else [0, 0])


@contextmanager
def busy_cores() -> Iterator[None]:
    program = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(program) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        time.sleep(0.3)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@needs_load
def test_other_work_is_noticed_and_own_is_not(cache: Path) -> None:
    def work() -> None:
        deadline = time.process_time() + 0.3
        while time.process_time() < deadline:
            pass

    store(cache, 5, load=0.9)
    with busy_cores():
        load = load_during(lambda: time.sleep(0.3))
        # What was measured on a busy computer waits for a quiet one.
        assert remember("speed", lambda: 6, int).value == 5
    assert load is not None and load > measurements.MAX_LOAD
    for _ in range(5):  # the machine may be busy with other things for a moment
        alone, beside = load_during(lambda: time.sleep(0.3)), load_during(work)
        assert alone is not None and beside is not None
        if beside < alone + 0.25:
            return
    pytest.fail(f"own work was taken for others': {alone} became {beside}")


def test_load_is_told() -> None:
    when = "2026-01-02T03:04:05+00:00"
    told = "2026-01-02 03:04:05 UTC, with 0% of the cores' time taken by other programs"
    assert describe_time(Measured(0, when, 0.0)) == told
    assert describe_time(Measured(0, when, None)) == "2026-01-02 03:04:05 UTC"
    busy = describe_time(Measured(0, when, 0.5))
    assert busy.startswith(f"{told.replace('0%', '50%')}: ") and "again" in busy


def test_a_cache_that_cannot_be_written_stops_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    (cache / "in the way").mkdir(parents=True)
    assert remember("speed", lambda: 1, int).value == 1
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    assert remember("speed", lambda: 2, int).value == 2
    monkeypatch.delenv("XDG_CACHE_HOME")  # and a user without a home folder
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert remember("speed", lambda: 3, int).value == 3


def test_a_machine_has_another_name_under_other_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = machine_key()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")
    assert machine_key() != before
