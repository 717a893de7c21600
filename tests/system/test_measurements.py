"""What was measured is kept, and measured again where it may be wrong."""

import json
import os
import subprocess
import sys
import time
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from bertsmith.system import measurements
from bertsmith.system.matrix_products import ProductSpeeds, _is_disproved, measure_products
from bertsmith.system.measurements import forget, load_during, machine_key, remember


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "bertsmith" / "measurements.json"


def days_ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


def recall(measured, **settings):
    return remember("speed", lambda: {"rate": measured()}, dict, **settings).value["rate"]


def store(cache, rate=5, measured_at=None, load=None):
    cache.parent.mkdir(exist_ok=True)
    entry = {"value": {"rate": rate}, "measured_at": measured_at or days_ago(0), "load": load}
    cache.write_text(json.dumps({"speed": entry}))
    measurements._checked.clear()  # as in a new process


def test_the_cache_is_used_and_a_damaged_one_is_measured_anew(cache):
    numbers = count()
    take = [recall(numbers.__next__) for _ in range(3)]
    assert take == [0, 0, 0]
    assert remember("other", lambda: {"rate": next(numbers)}, dict).value == {"rate": 1}
    assert set(json.loads(cache.read_text())) == {"speed", "other"}
    entries = [
        {"value": {"rate": -1}, "measured_at": measured_at, "load": load}
        for measured_at, load in (("yesterday", 0), ("2026-01-31", 0), (days_ago(0), "high"))
    ]
    by_hand = [json.dumps({"speed": entry}) for entry in entries]
    for damaged in ("{ damaged", '{"speed": 3}', '{"speed": {"value": []}}', "[]", *by_hand):
        cache.write_text(damaged)
        again = recall(numbers.__next__)
        assert again > 1
        assert recall(numbers.__next__) == again
    pinned = entries[1] | {"is_pinned": True}  # its time may be any text
    cache.write_text(json.dumps({"speed": pinned}))
    assert recall(numbers.__next__) == -1


def test_a_device_is_forgotten_without_its_pinned_measurements_and_without_other_devices(cache):
    gpu = "NVIDIA H200 | torch 2"
    others = {"another computer | speed": 1, f"{machine_key()} | pinned": {"is_pinned": True}}
    cache.parent.mkdir()
    cache.write_text(
        json.dumps({**others, f"{machine_key()} | speed": 2, f"{gpu} | attention": {"value": {}}})
    )
    forget(machine_key())
    assert json.loads(cache.read_text()).keys() == {*others, f"{gpu} | attention"}
    forget(gpu)
    assert json.loads(cache.read_text()) == others


def test_a_trial_that_fails_forgets_what_was_measured_beside_it_but_nothing_pinned(
    cache, monkeypatch
):
    monkeypatch.setattr(measurements, "CORE_TIMES", cache)
    speed, other, pinned = (f"{machine_key()} | {name}" for name in ("speed", "other", "pinned"))
    entry = {"value": {"rate": 5}, "measured_at": days_ago(0), "load": None}
    cache.parent.mkdir()
    cache.write_text(json.dumps({speed: entry, other: entry, pinned: {**entry, "is_pinned": True}}))
    measurements._checked.clear()
    found = remember(speed, lambda: {"rate": 7}, dict, is_wrong=lambda value: True)
    assert found.value == {"rate": 7}
    assert json.loads(cache.read_text()).keys() == {speed, pinned}
    for key in (speed, pinned):
        measurements._checked.clear()
        again = remember(key, lambda: {"rate": 9}, dict, is_wrong=lambda value: value["rate"] == 5)
        assert again.value == {"rate": 7 if key == speed else 5}


@pytest.mark.parametrize(("stored", "is_kept"), [
    ({}, True), ({"load": 0.9}, False), ({"rate": -1}, False),
    ({"measured_at": days_ago(29)}, True), ({"measured_at": days_ago(31)}, False),
])  # fmt: skip
def test_what_may_be_wrong_is_measured_again_once(stored, is_kept, cache, monkeypatch):
    # A system that does not tell how busy it is: other programs may run beside the tests.
    monkeypatch.setattr(measurements, "CORE_TIMES", cache)
    store(cache, **stored)
    numbers = count()
    settings = {"is_wrong": lambda value: value["rate"] < 0}
    found = [recall(numbers.__next__, **settings) for _ in range(2)]
    assert found == ([5, 5] if is_kept else [0, 0])


@pytest.mark.parametrize("speed", ["12", None, -1.0])
def test_speeds_that_are_no_numbers_are_measured_anew(speed, cache):
    speeds = {field.name: 1.0 for field in fields(ProductSpeeds)} | {"bf16_gflops": speed}
    entry = {"value": speeds, "measured_at": days_ago(0), "load": 0}
    cache.parent.mkdir()
    cache.write_text(json.dumps({"speeds": entry}))
    measured = ProductSpeeds(2.0, 2.0, 2.0, 2.0, 2.0)
    assert remember("speeds", lambda: measured, ProductSpeeds).value == measured


def test_a_speed_that_is_not_reached_is_disproved():
    found, names = measure_products(), ("fp32_gflops", "fp32_medium_gflops", "bf16_gflops")
    for factor in (30, 1 / 30):
        assert _is_disproved(replace(found, **{n: factor * getattr(found, n) for n in names}))
    # Other programs may slow one of the two.
    assert not all(_is_disproved(measure_products()) for _ in range(10))


@pytest.mark.skipif(not measurements.CORE_TIMES.exists(), reason="the system tells no load")
def test_other_work_is_noticed_and_what_was_measured_beside_it_waits(cache):
    store(cache, load=0.9)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # one core is soon busy
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        _, load = load_during(lambda: time.sleep(0.3))
        assert recall(lambda: 6) == 5
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, cores)
    assert load is not None and load > measurements.MAX_LOAD


def test_a_cache_that_cannot_be_written_stops_nothing(cache, tmp_path, monkeypatch):
    def without_home(uid):
        raise KeyError(uid)

    (cache / "in the way").mkdir(parents=True)
    assert recall(lambda: 1) == 1
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    assert recall(lambda: 2) == 2
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", without_home)
    assert recall(lambda: 3) == 3
