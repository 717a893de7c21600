"""Device, precision and threads are those that measuring chose, and torch is left as it was."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from computing import MAX_THREADS, speeds
from refusals import refuses
from torch_threads import another_number, threads

from bertsmith.errors import ConfigError
from bertsmith.system import hardware
from bertsmith.system.compute import Compute
from bertsmith.system.hardware import (
    ComputeChoices,
    compute_settings,
    computing_as,
    count_worker_processes,
    earlier_choices,
    select_device,
    select_precision,
)
from bertsmith.system.matrix_products import MAX_BF16_ERROR, measured_products, using_route
from bertsmith.system.threads import map_on_threads, own_threads

WAIT = 60
CPU = torch.device("cpu")


def test_each_thread_computes_by_its_own_choices():
    both_inside, one_left = threading.Barrier(2), threading.Event()
    fp32, bf16 = (ComputeChoices(1, name, "highest", {}) for name in ("fp32", "bf16"))

    def compute(choices, *, is_first):
        with computing_as(choices):
            both_inside.wait(WAIT)
            assert is_first or one_left.wait(WAIT)
            found = select_precision("auto", CPU)
            with own_threads(2):
                of_helpers = set(map_on_threads(lambda _: select_precision("auto", CPU), range(9)))
        one_left.set()
        return found, of_helpers, earlier_choices()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compute, fp32, is_first=True)
        other = pool.submit(compute, bf16, is_first=False)
        assert first.result(WAIT) == ("fp32", {"fp32"}, None)
        assert other.result(WAIT) == ("bf16", {"bf16"}, None)
    assert earlier_choices() is None


def test_the_fastest_way_that_keeps_its_promise_is_chosen():
    for changes, route, precision in (
        ({}, "medium", "bf16"),
        ({"fp32_medium_error": 3e-3}, "highest", "bf16"),
        ({"fp32_medium_gflops": 90.0}, "highest", "bf16"),
        ({"bf16_gflops": 60.0}, "medium", "fp32"),
        ({"bf16_gflops": 220.0}, "medium", "fp32"),
        ({"bf16_error": 3e-2}, "medium", "fp32"),
    ):
        found = speeds(**changes)
        assert (found.float32_route, found.precision) == (route, precision)


def test_products_are_measured_for_each_number_of_threads_and_torch_is_left_as_it_was(remember):
    remember(bf16_gflops=12345.0)
    assert measured_products().value.bf16_gflops == 12345.0
    before = torch.get_float32_matmul_precision()
    with threads(MAX_THREADS + 1), torch.inference_mode():
        found = measured_products().value
    assert min(found.fp32_gflops, found.fp32_medium_gflops, found.bf16_gflops) > 0
    assert found.bf16_gflops != 12345.0
    assert found.fp32_medium_error < 0.05
    assert 1e-4 < found.bf16_error < MAX_BF16_ERROR
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("device", "precision", "inside"), [("cpu", "bf16", "medium"), ("cuda", "fp32", "highest")]
)
def test_a_block_computes_as_measured_and_torch_is_restored_after_an_error(
    remember, monkeypatch, device, precision, inside
):
    monkeypatch.setattr(hardware, "select_device", torch.device)
    number, route = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with threads(1):
        remember()
    settings = Compute(device=device, threads=1, precision="fp32" if device == "cuda" else "auto")
    with another_number():
        torch.set_float32_matmul_precision("high")
        try:
            with pytest.raises(RuntimeError), compute_settings(settings) as found:
                assert found == (torch.device(device), precision)
                assert torch.get_num_threads() == 1
                assert torch.get_float32_matmul_precision() == inside
                raise RuntimeError
            assert torch.get_num_threads() == number + 1
            assert torch.get_float32_matmul_precision() == "high"
        finally:
            torch.set_float32_matmul_precision(route)


@pytest.mark.parametrize(("cores", "allowed"), [(2, "up to 2"), (1, "allowed is 1")])
def test_more_threads_than_cores_are_refused_with_the_number_of_cores(monkeypatch, cores, allowed):
    monkeypatch.setattr(hardware, "available_cores", lambda: cores)
    before = torch.get_num_threads()
    computing = compute_settings(Compute(device="cpu", precision="fp32", threads=999))
    with refuses(ConfigError, "--threads: found 999", allowed), computing:
        pass
    assert torch.get_num_threads() == before
    with compute_settings(Compute(device="cpu", precision="fp32", threads=cores)):
        assert torch.get_num_threads() == cores


def test_the_last_block_to_end_of_any_thread_restores_the_route():
    before = torch.get_float32_matmul_precision()
    first, second = using_route("highest"), using_route("medium")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "medium"
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before


def test_an_inner_block_leaves_the_outer_one_its_route():
    before = torch.get_float32_matmul_precision()
    other = "medium" if before == "highest" else "highest"
    with using_route(other):
        with using_route(before):
            assert torch.get_float32_matmul_precision() == before
        assert torch.get_float32_matmul_precision() == other
    assert torch.get_float32_matmul_precision() == before


def test_devices(monkeypatch):
    assert select_device("cpu").type == "cpu"
    assert select_device("auto").type in ("cpu", "cuda", "mps")
    with refuses(ConfigError, "device: found 'tpu'", "auto, cpu, cuda, cuda:N and mps"):
        select_device("tpu")
    with refuses(ConfigError, "device: found 'cuda:77'", "--device auto", worded=False):
        select_device("cuda:77")
    assert select_device(CPU) == CPU
    assert select_device("cpu:0") == torch.device("cpu", 0)
    for name in ("cpu:00", "cpu:\u0660", "cpu:"):
        with refuses(ConfigError, f"device: found '{name}'", "cuda:N", worded=False):
            select_device(name)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert count_worker_processes(CPU) == hardware.MAX_WORKER_PROCESSES
    assert count_worker_processes(torch.device("cuda")) == 1
    with refuses(ConfigError, "precision: found 'fp64'", "auto, fp32 and bf16"):
        select_precision("fp64", CPU)
