"""Device, precision, threads and fp32 route of a run.

The fp32 route is the way in which torch multiplies fp32 matrices: "highest", or on some processors
"medium", which is faster and as exact there. Precision and route are chosen by measuring products;
a resumed run keeps its first choices.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.compute import Compute
from bertsmith.system.cores import available_cores
from bertsmith.system.counts import count_noun
from bertsmith.system.forks import is_forked
from bertsmith.system.matrix_products import (
    Float32Route,
    Precision,
    format_gflops,
    measured_products,
    using_route,
)
from bertsmith.system.threads import own_threads, usable_threads
from bertsmith.system.torch_modes import usual_modes

MAX_WORKER_PROCESSES = 8


@dataclass(frozen=True)
class ComputeChoices:
    """A run's choices on a CPU, stored in its folder for when it is resumed."""

    threads: int
    precision: Precision
    """Precision of the run; when the run is resumed, "auto" means this precision."""
    float32_route: Float32Route
    attention: Mapping[str, str]
    """Path of attention, such as plain matrix products or a fused kernel, by precision, use and
    length of rows (model/attention_paths.py)."""


_choices: ContextVar[ComputeChoices | None] = ContextVar("choices", default=None)
"""Choices of the innermost `computing_as` block. Each thread of Python has its own choices; threads
that work for a block take over the choices of the block (`map_on_threads` in system/threads.py,
`Prefetcher` in training/prefetch.py)."""
_process_choices: list[ComputeChoices] = []
"""Choices of `keep_computing_as` for all threads, the newest last."""


@contextlib.contextmanager
def computing_as(choices: ComputeChoices | None) -> Iterator[None]:
    """Compute in the block, in this thread of Python, by an earlier run's choices.

    None changes nothing.
    """
    if choices is None:
        yield
        return
    token = _choices.set(choices)
    try:
        yield
    finally:
        _choices.reset(token)


def keep_computing_as(choices: ComputeChoices) -> None:
    """Compute by the choices of another process for as long as this process lives."""
    _process_choices.append(choices)
    torch.set_num_threads(choices.threads)
    torch.set_float32_matmul_precision(choices.float32_route)


def earlier_choices() -> ComputeChoices | None:
    """Return the choices that replace measurements, if any."""
    return _choices.get() or (_process_choices[-1] if _process_choices else None)


def current_choices(precision: Precision, attention: Mapping[str, str]) -> ComputeChoices:
    """Collect how this process computes now, within `compute_settings`, for run.json."""
    route: Float32Route = torch.get_float32_matmul_precision()  # type: ignore[assignment]
    return ComputeChoices(torch.get_num_threads(), precision, route, attention)


def select_device(name: str | torch.device) -> torch.device:
    """Return the torch device for `auto`, `cpu`, `cuda`, `cuda:1` or `mps`, or for a device.

    `auto` is the first of cuda, mps and cpu that this machine has.

    Raises:
        ConfigError: the device is unknown or this machine does not have it.
    """
    name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu" and torch.backends.mps.is_available():
            name = "mps"
    num_devices = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    device_type, colon, index = name.partition(":")
    if device_type not in num_devices or (colon and not _is_plain_number(index)):
        raise SettingError("device", name, ("auto", "cpu", "cuda", "cuda:N", "mps"))
    if int(index or 0) >= num_devices[device_type]:
        raise ConfigError(
            f"{option('device')}: found '{name}', but torch sees "
            f"{count_noun(num_devices[device_type], f'{device_type} device')}. Use "
            f"{option('device', 'auto')}."
        )
    return torch.device(name)


def _is_plain_number(digits: str) -> bool:
    """Return whether the digits are a number as torch reads it: not "00", which it refuses."""
    return digits.isdecimal() and digits == str(int(digits))


def select_precision(name: str, device: torch.device) -> Precision:
    """Resolve `auto` to fp32 or bf16; return fp32 or bf16 as it is.

    On a CPU `auto` is bf16 if that is clearly faster (`ProductSpeeds.precision`), on a GPU if the
    card has it, elsewhere fp32. In a resumed run it is the precision with which the run began.

    Raises:
        SettingError: there is no such precision.
    """
    if name in ("fp32", "bf16"):
        return name  # type: ignore[return-value]
    if name != "auto":
        raise SettingError("precision", name, ("auto", "fp32", "bf16"))
    if device.type == "cuda":
        with torch.cuda.device(device):  # torch asks the current card
            has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bf16" if has_bf16 else "fp32"
    if device.type != "cpu":
        return "fp32"
    choices = earlier_choices()
    return measured_products().value.precision if choices is None else choices.precision


def count_worker_processes(device: torch.device) -> int:
    """Count the worker processes that train: one for each of torch's threads, on a GPU only one.

    Call within `compute_settings`, which may change the number of threads. Every process has its
    own gradients, which take memory and must be added up, so there are at most
    `MAX_WORKER_PROCESSES`; with more threads, each process has several. If a launcher such as
    torchrun started this process as one of several ranks, the number is that of this rank.
    """
    return min(torch.get_num_threads(), MAX_WORKER_PROCESSES) if device.type == "cpu" else 1


@contextlib.contextmanager
def compute_settings(settings: Compute) -> Iterator[tuple[torch.device, Precision]]:
    """Set threads and fp32 route for a block; yield device and precision.

    Other threads of Python keep their numbers of torch threads. The fp32 route is process-wide in
    torch, so predictions that other threads make meanwhile may differ in the last digits. For a CPU
    the route is chosen by measurement; for other devices it is "highest", since on a GPU the other
    routes are TF32, whose errors are a thousand times as large.

    Raises:
        ConfigError: this machine has no such device, or not as many cores as `threads` says.
    """
    device = select_device(settings.device)
    choices = earlier_choices()
    threads = settings.threads
    if threads is not None:
        _check_threads(threads)
    else:
        threads = usable_threads() if choices is None else choices.threads
    # In a forked child torch would wait for ever for its parent's threads.
    with own_threads(1 if is_forked() else threads):
        route: Float32Route = "highest"
        if device.type == "cpu":
            route = (choices or measured_products().value).float32_route
        with using_route(route), usual_modes():
            yield device, select_precision(settings.precision, device)


def _check_threads(threads: int) -> None:
    """Check that this process may use a core for each of the threads.

    Raises:
        SettingError: there are more threads than cores.
    """
    cores = available_cores()
    if threads > cores:
        most = f"up to {cores}" if cores > 1 else "1"
        raise SettingError(
            "threads", threads, f"{most}, as this process may use {count_noun(cores, 'core')}"
        )


def describe_cores(device: torch.device, precision: Precision, num_ranks: int = 1) -> str:
    """Describe in one sentence the hardware that a run trains on.

    >>> describe_cores(torch.device("cuda", 0), "bf16")
    'Training on cuda:0 in bf16.'
    >>> describe_cores(torch.device("cuda", 0), "bf16", num_ranks=4)
    'Training on 4 ranks, the first with cuda:0, in bf16.'
    """
    hardware = count_noun(torch.get_num_threads(), "CPU core") if device.type == "cpu" else device
    if num_ranks > 1:
        return f"Training on {num_ranks} ranks, the first with {hardware}, in {precision}."
    return f"Training on {hardware} in {precision}."


def describe_computing(
    device: torch.device,
    precision: Precision,
    num_processes: int,
    attention: str,
    *,
    is_exact: bool = False,
) -> str:
    """Describe in one line how a run computes, and the measurements by which that was chosen.

    Args:
        attention: how attention is computed, in words.
        is_exact: whether the run has the setting `--exact`, so that each process has one thread.
    """
    parts = [f"on {device} in {precision}"]
    if device.type == "cpu":
        reason = _describe_products(precision) if earlier_choices() is None else "as it began"
        parts[0] += f" ({reason})"
        processes = count_noun(num_processes, "process", "processes")
        threads = 1 if is_exact else max(1, torch.get_num_threads() // num_processes)
        parts.append(f"{processes} of {count_noun(threads, 'thread')}")
    return ", ".join([*parts, attention])


def _describe_products(precision: Precision) -> str:
    products = measured_products()
    route = "medium" if products.value.float32_route == "medium" else "plain"
    fp32, bf16 = products.value.best_fp32_gflops, products.value.bf16_gflops
    busy = " while other programs were busy" if products.is_busy else ""
    slower = "; fp32 is faster" if precision == "bf16" and bf16 < fp32 else ""
    return f"measured here{busy}: bf16 {format_gflops(bf16)}, {route} fp32 {fp32:,.0f}{slower}"
