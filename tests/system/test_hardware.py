import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from measurements import figures, remember

from bertsmith.commands.hardware import describe_time
from bertsmith.errors import ConfigError
from bertsmith.system import hardware
from bertsmith.system.hardware import (
    attention_path,
    compute_settings,
    measured,
    select_device,
)
from bertsmith.system.int8 import can_quantize
from bertsmith.system.varlen import VarlenTrial


def test_the_fastest_way_that_keeps_its_promise_is_chosen() -> None:
    assert figures().float32_route == "medium"
    assert figures().precision == "bf16"
    assert figures(fp32_medium_error=3e-3).float32_route == "highest"
    assert figures(fp32_medium_gflops=90.0).float32_route == "highest"
    assert figures(bf16_gflops=60.0).precision == "fp32"
    assert figures(bf16_gflops=220.0).precision == "fp32"
    assert figures(bf16_error=3e-2).precision == "fp32"


def test_measuring_leaves_torch_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    found = hardware.measure(size=64)
    assert min(found.fp32_gflops, found.fp32_medium_gflops, found.bf16_gflops) > 0
    assert found.fp32_medium_error < 0.05
    assert 1e-4 < found.bf16_error < hardware.MAX_BF16_ERROR
    if can_quantize():
        assert found.int8_gflops is not None and found.int8_gflops > 0
        assert found.int8_error is not None and 1e-3 < found.int8_error < 0.03
    assert torch.get_float32_matmul_precision() == before


def test_compute_settings_are_restored_after_an_error() -> None:
    threads, route = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError), compute_settings(torch.device("cpu"), threads=1):
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == route


def test_the_cache_is_used_and_a_damaged_one_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = measured()
    path = tmp_path / "bertsmith" / "hardware.json"
    stored = json.loads(path.read_text())
    (key,) = stored
    stored[key]["bf16_gflops"] = 12345.0
    path.write_text(json.dumps(stored))
    assert measured().bf16_gflops == 12345.0
    again = measured(fresh=True)
    assert again.bf16_gflops != 12345.0
    assert measured() == again
    path.write_text("{ damaged")
    assert measured().processor == first.processor


def now() -> str:
    return datetime.now(UTC).isoformat()


def test_figures_are_of_use_for_a_month() -> None:
    for days, is_outdated in ((29, False), (31, True)):
        then = datetime.now(UTC) - timedelta(days=days)
        assert replace(figures(), measured_at=then.isoformat()).is_outdated == is_outdated
    assert figures().is_outdated  # of an earlier version


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"load": 0.0}, True),
        ({"load": None}, True),
        ({"load": 0.9}, False),
        ({"measured_at": "2020-01-01T00:00:00+00:00"}, False),
        ({"fp32_gflops": 0.01}, False),  # faster now, so it was busy then
    ],
)
def test_figures_that_may_be_wrong_are_measured_again_once(
    changes: dict[str, Any], is_kept: bool, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A system that does not tell how busy it is: other programs may run beside the tests.
    monkeypatch.setattr(hardware, "CORE_TIMES", empty_cache)
    stored = asdict(figures()) | {"bf16_gflops": 12345.0, "measured_at": now()}
    stored |= {"fp32_gflops": 1e9, **changes}
    with one_thread():
        key = f"{hardware._machine()} | 1 threads"
        hardware._write("hardware.json", {key: stored})
        hardware._checked.clear()  # as in a new process
        found = measured()
        assert (found.bf16_gflops == 12345.0) == is_kept
        assert measured() == found
    assert is_kept or not found.is_outdated


@contextmanager
def one_thread() -> Iterator[None]:
    """On a busy machine threads that wait for one another take long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


@pytest.mark.skipif(not hardware.CORE_TIMES.exists(), reason="the system does not tell its load")
def test_figures_of_a_busy_computer_wait_for_a_quiet_one(empty_cache: Path) -> None:
    key = f"{hardware._machine()} | {torch.get_num_threads()} threads"
    stored = asdict(figures(load=0.9, bf16_gflops=12345.0)) | {"measured_at": now()}
    hardware._write("hardware.json", {key: stored})
    hardware._checked.clear()
    with busy_cores():
        assert measured().bf16_gflops == 12345.0


@pytest.mark.skipif(not hardware.CORE_TIMES.exists(), reason="the system does not tell its load")
def test_other_work_is_noticed_and_own_is_not() -> None:
    def work() -> None:
        deadline = time.process_time() + 0.3
        while time.process_time() < deadline:
            pass

    with busy_cores():
        load = hardware._load_during(lambda: time.sleep(0.3))
    assert load is not None and load > hardware.MAX_LOAD
    for _ in range(5):  # the machine may be busy with other things for a moment
        alone, beside = hardware._load_during(lambda: time.sleep(0.3)), hardware._load_during(work)
        assert alone is not None and beside is not None
        if beside < alone + 0.25:
            return
    pytest.fail(f"own work was taken for others': {alone} became {beside}")


def test_load_is_told() -> None:
    found = replace(figures(load=0.0), measured_at="2026-01-02T03:04:05+00:00")
    told = "2026-01-02 03:04:05 UTC, with 0% of the cores' time taken by other programs"
    assert describe_time(found) == told
    assert describe_time(replace(found, load=None)) == "2026-01-02 03:04:05 UTC"
    assert describe_time(replace(found, load=0.5)) == (
        f"{told.replace('0%', '50%')}: the figures may be too low, and are measured again when the "
        "computer is quiet"
    )


def test_a_cache_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "bertsmith" / "hardware.json" / "in the way").mkdir(parents=True)
    assert measured().fp32_gflops > 0
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    assert measured().fp32_gflops > 0


def test_a_user_without_a_home_folder_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert measured().fp32_gflops > 0


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    hardware.attention_paths.cache_clear()
    yield tmp_path / "bertsmith" / "hardware.json"
    hardware.attention_paths.cache_clear()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_machine_is_measured_where_gradients_are_off(
    mode: Callable[[], AbstractContextManager],
) -> None:
    with mode():
        assert hardware.measure(size=64).attention


def test_figures_under_other_instructions_are_not_taken(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(empty_cache.parents[1], bf16_gflops=12345.0)
    assert measured().bf16_gflops == 12345.0
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2_VNNI")  # torch has read it long since
    assert measured().bf16_gflops != 12345.0
    assert len(json.loads(empty_cache.read_text())) == 2


def test_what_was_chosen_is_told_in_one_line(empty_cache: Path) -> None:
    cpu, rest = torch.device("cpu"), r", 1 process of \d+ threads?, fused attention"
    remember(empty_cache.parents[1])
    line = hardware.describe_computing(cpu, "bf16", 1)
    assert re.fullmatch(
        r"on cpu in bf16 \(measured here: bf16 400 GFLOP/s, medium fp32 200\)" + rest, line
    )
    remember(empty_cache.parents[1], bf16_gflops=1.24)
    line = hardware.describe_computing(cpu, "bf16", 1)
    assert "(measured here: bf16 1.2 GFLOP/s, medium fp32 200; fp32 is faster)" in line
    assert "fp32 is faster" not in hardware.describe_computing(cpu, "fp32", 1)
    assert hardware.describe_computing(torch.device("mps"), "bf16", 1) == "on mps in bf16"


def test_a_precision_that_gains_nothing_is_told(empty_cache: Path) -> None:
    cpu = torch.device("cpu")
    remember(empty_cache.parents[1], int8_gflops=190.0, bf16_gflops=190.0)
    note = hardware.precision_note("int8", cpu)
    assert note is not None
    assert "int8: measured on this computer, it reaches 190 GFLOP/s, fp32 200" in note
    assert "--precision fp32" in (hardware.precision_note("bf16", cpu) or "")
    assert hardware.precision_note("fp32", cpu) is None
    assert hardware.precision_note("bf16", torch.device("cuda")) is None
    remember(empty_cache.parents[1])
    assert hardware.precision_note("int8", cpu) is None
    assert (hardware.precision_note("bf16", cpu) is None) == hardware.multiplies_bf16()


TRIALS = {
    "fast": VarlenTrial(0.001, 0.002, 3e-3, has_dropout=True),
    "no dropout": VarlenTrial(0.001, 0.002, 3e-3, has_dropout=False),
    "slow": VarlenTrial(0.001, 0.00105, 3e-3, has_dropout=True),
    "wrong": VarlenTrial(0.001, 0.002, 1.0, has_dropout=True),
    "absent": VarlenTrial(problem="ImportError: no module"),
}


@pytest.mark.parametrize(
    ("name", "pays", "pays_with_dropout", "told"),
    [
        (
            "fast",
            True,
            True,
            r"attention of the whole row \(measured here: 1.00 ms, by blocks 2.00\)",
        ),
        ("no dropout", True, False, r"of the whole row \(.*; by blocks where it has dropout\)"),
        ("slow", False, False, r"by blocks \(measured here: 1.05 ms, whole row 1.00, .*3.0e-03\)"),
        ("wrong", False, False, r"by blocks \(.*, relative error 1.0e\+00\)"),
        ("absent", False, False, r"by blocks \(not of the whole row: ImportError: no module\)"),
    ],
)
def test_attention_of_the_whole_row_must_be_right_and_faster(
    name: str, pays: bool, pays_with_dropout: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "varlen_trial", lambda device: TRIALS[name])
    cuda = torch.device("cuda")
    assert hardware.varlen_pays(cuda, with_dropout=False) == pays
    assert hardware.varlen_pays(cuda, with_dropout=True) == pays_with_dropout
    assert re.search(told, hardware.describe_computing(cuda, "bf16", 1))
    assert hardware.describe_computing(cuda, "fp32", 1) == "on cuda in fp32, attention by blocks"


def test_trials_are_remembered_unless_they_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    outcomes = iter([TRIALS["absent"], TRIALS["fast"]])
    monkeypatch.setattr("bertsmith.system.varlen.try_varlen", lambda device: next(outcomes))
    path = tmp_path / "bertsmith" / "hardware-gpu.json"
    try:
        for number, name in enumerate(("absent", "fast", "fast")):
            hardware.varlen_trial.cache_clear()
            if number == 1:
                path.parent.mkdir()
                path.write_text(json.dumps({"another card": {"of": "another version"}}))
            assert hardware.varlen_trial(torch.device("cuda:0")) == TRIALS[name]
    finally:
        hardware.varlen_trial.cache_clear()
    assert set(json.loads(path.read_text())) == {
        "another card",
        f"a card | torch {torch.__version__}",
    }


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_attention_goes_by_blocks() -> None:
    trial = hardware.varlen_trial(torch.device("cuda"))
    assert trial.problem == "there is no CUDA device" and not trial.pays


def test_on_a_gpu_fp32_is_true_fp32() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        with compute_settings(torch.device("cuda")):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_attention_takes_the_path_measured_at_the_nearest_length(empty_cache: Path) -> None:
    measured()
    stored = json.loads(empty_cache.read_text())
    (found,) = stored.values()
    assert len(found["attention"]) == 12
    for path in ("fused", "explicit"):
        found["attention"] = dict.fromkeys(found["attention"], "fused")
        found["attention"]["bf16 learning 128"] = path
        empty_cache.write_text(json.dumps(stored))
        hardware.attention_paths.cache_clear()
        for length in (65, 128, 255):
            assert attention_path(torch.bfloat16, is_learning=True, length=length) == path
        for length in (1, 63, 257, 9999):
            assert attention_path(torch.bfloat16, is_learning=True, length=length) == "fused"
        assert attention_path(torch.float32, is_learning=True, length=128) == "fused"
        assert attention_path(torch.bfloat16, is_learning=False, length=128) == "fused"


def test_attention_is_measured_once_for_any_number_of_threads(empty_cache: Path) -> None:
    measured()
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        attention_path(torch.float32, is_learning=False, length=32)
    finally:
        torch.set_num_threads(before)
    assert len(json.loads(empty_cache.read_text())) == 1


def test_devices() -> None:
    assert select_device("cpu").type == "cpu"
    assert select_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="allowed are"):
        select_device("tpu")
    with pytest.raises(ConfigError, match="not available on this machine"):
        select_device("cuda:77")


def test_training_processes_are_for_cpus_and_few(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert hardware.count_trainers(torch.device("cpu")) == 3
    assert hardware.count_trainers(torch.device("cuda")) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert hardware.count_trainers(torch.device("cpu")) == hardware.MAX_TRAINERS
