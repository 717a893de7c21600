"""What this machine does best: device, precision, attention, measured once and remembered.

Whether bf16 pays depends on the processor (with AVX512-BF16 or AMX it is several times faster
than fp32, without it slower), and so does the quicker route through fp32 ("medium" sends it to
oneDNN: still true fp32 on most processors, bf16 in disguise on some). So does attention: torch's
fused kernel takes a third of the time of plain products on one processor and three times as long
on another. Data sheets do not tell; a few products do, in less than a second.
"""

import contextlib
import ctypes
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertsmith.errors import ConfigError, InputError
from bertsmith.system.files import write_json

if TYPE_CHECKING:
    import torch

    from bertsmith.system.varlen import VarlenTrial

Precision = Literal["fp32", "bf16"]
Float32Route = Literal["highest", "medium"]
AttentionPath = Literal["explicit", "fused"]

# A product is "true fp32" when its relative error stays within a few rounding units (6e-8 each,
# growing with the square root of the 512 terms summed); bf16 in disguise has about 3e-3.
MAX_FLOAT32_ERROR = 2e-6
# Numbers rounded to bf16 give about 3e-3; a sum kept in bf16 as well would be several times that.
MAX_BF16_ERROR = 1e-2
# bf16 also costs casts and a second copy of the weights, so it must win clearly.
MIN_BF16_GAIN = 1.3

# Attention is measured at these lengths, and the nearest one counts; the other path must win by so
# much, since which of two equals wins is chance.
ATTENTION_LENGTHS = (32, 128, 512)
MIN_FUSED_GAIN = 1.1
ATTENTION_SECONDS = 0.01

MAX_LOAD = 0.2
"""The share of the cores that other work may have while speeds are measured."""
LOAD_SECONDS = 0.1
MAX_AGE = timedelta(days=30)
MAX_SPEEDUP = 1.5
"""A product that is so much faster than was measured shows that the computer was busy then."""

MAX_TRAINERS = 8

INSTRUCTION_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Environment variables that hide instructions from oneDNN and MKL; `ATEN_CPU_CAPABILITY`, which
hides them from torch itself, shows in `get_cpu_capability`."""

CORE_TIMES = Path("/proc/stat")
"""Where Linux counts what each core has done."""

CPU_CACHE = "hardware.json"
GPU_CACHE = "hardware-gpu.json"

# Options of glibc's mallopt: from how many bytes an array gets pages of its own, and how much free
# memory makes the C library give some back.
M_MMAP_THRESHOLD = -3
M_TRIM_THRESHOLD = -1

KEPT_ARRAY = 32 * 2**20
"""Bytes up to which an array's pages are kept for the next; the most that glibc takes. Gradients of
the word embeddings of a large model are more: with pages of their own they leave no holes (training
base takes 15 to 43 MB less of some 4,200)."""


@dataclass(frozen=True)
class Measurement:
    """Speeds of a matrix product, in GFLOP/s over all threads, its relative errors, and how
    attention is computed. Of int8, which not every torch has, they may be None."""

    processor: str
    threads: int
    fp32_gflops: float
    fp32_medium_gflops: float
    fp32_medium_error: float
    bf16_gflops: float
    bf16_error: float
    int8_gflops: float | None
    int8_error: float | None
    attention: Mapping[str, AttentionPath]
    """The faster path by precision, use and length, such as "bf16 reading 128"."""
    measured_at: str = ""
    """UTC, in ISO format."""
    load: float | None = None
    """The share of the cores that other work had meanwhile; None where the system does not tell."""

    @property
    def is_busy(self) -> bool:
        """Whether other work took so much of the cores that the figures may be wrong."""
        return self.load is not None and self.load > MAX_LOAD

    @property
    def is_outdated(self) -> bool:
        """Whether the figures are a month old."""
        try:
            return datetime.now(UTC) - datetime.fromisoformat(self.measured_at) > MAX_AGE
        except (TypeError, ValueError):  # of a version that did not write it down
            return True

    @property
    def float32_route(self) -> Float32Route:
        """The fastest setting of torch's fp32 products that is still fp32."""
        exact = self.fp32_medium_error <= MAX_FLOAT32_ERROR
        return "medium" if exact and self.fp32_medium_gflops > self.fp32_gflops else "highest"

    @property
    def precision(self) -> Precision:
        """bf16 where it beats the best true fp32 clearly and is no less exact than bf16 is."""
        is_exact = self.bf16_error <= MAX_BF16_ERROR
        is_faster = self.bf16_gflops >= MIN_BF16_GAIN * self.best_fp32_gflops
        return "bf16" if is_exact and is_faster else "fp32"

    @property
    def best_fp32_gflops(self) -> float:
        """The speed of `float32_route`."""
        return self.fp32_medium_gflops if self.float32_route == "medium" else self.fp32_gflops


@dataclass(frozen=True)
class ComputeChoices:
    """How a run computes on a CPU, as measuring chose; kept with it for its continuation."""

    threads: int
    precision: Precision
    """The run's, and so what "auto" is."""
    float32_route: Float32Route
    attention: Mapping[str, AttentionPath]


_kept: list[ComputeChoices] = []
"""Choices of runs that are continued, the innermost last; what is measured does not count then."""


@contextlib.contextmanager
def computing_as(choices: ComputeChoices | None) -> Iterator[None]:
    """Compute in the block as was chosen before; None changes nothing."""
    if choices is None:
        yield
        return
    _kept.append(choices)
    try:
        yield
    finally:
        _kept.pop()


def keep_computing_as(choices: ComputeChoices) -> None:
    """Compute as was chosen elsewhere for as long as this process lives."""
    import torch

    _kept.append(choices)
    torch.set_num_threads(choices.threads)
    torch.set_float32_matmul_precision(choices.float32_route)


def compute_choices(precision: Precision) -> ComputeChoices:
    """Return the choices in force, within `compute_settings`, of a run that computes in this."""
    import torch

    route: Any = torch.get_float32_matmul_precision()
    attention = _kept[-1].attention if _kept else attention_paths()
    return ComputeChoices(torch.get_num_threads(), precision, route, attention)


def select_device(name: str = "auto") -> "torch.device":
    """The torch device for `auto`, `cpu`, `cuda`, `cuda:1` or `mps`.

    Raises:
        ConfigError: the device is unknown or this machine does not have it.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu" and torch.backends.mps.is_available():
            name = "mps"
    kind, colon, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and not index.isdecimal()):
        raise ConfigError(f"device: found '{name}'; allowed are auto, cpu, cuda, cuda:N and mps.")
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }[kind]
    if int(index or 0) >= present:
        raise ConfigError(
            f"device: '{name}' is not available on this machine ({present} of that kind found). "
            "Use --device auto."
        )
    return torch.device(name)


def select_precision(name: str, device: "torch.device") -> Precision:
    """Resolve `auto` to the faster of fp32 and bf16 on `device`; anything else is kept."""
    if name in ("fp32", "bf16"):
        return name  # type: ignore[return-value]
    if name != "auto":
        raise ConfigError(f"precision: found '{name}'; allowed are auto, fp32 and bf16.")
    if device.type == "cuda":
        import torch

        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if device.type != "cpu":
        return "fp32"
    return _kept[-1].precision if _kept else measured().precision


def multiplies_bf16() -> bool:
    """Tell whether oneDNN multiplies in bf16 with the instructions that it may use here."""
    import torch

    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def precision_note(precision: str, device: "torch.device") -> str | None:
    """Tell where a model read in fp32 is as fast as in `precision`; None elsewhere."""
    if device.type != "cpu" or precision == "fp32":
        return None
    advice = "--precision fp32 is as fast here, and more exact."
    if precision == "bf16" and not multiplies_bf16():
        return f"bf16: this processor does not multiply in it. {advice}"
    found = measured()
    speed = found.bf16_gflops if precision == "bf16" else found.int8_gflops
    if speed is None or speed > found.best_fp32_gflops:
        return None
    return (
        f"{precision}: measured on this computer, it reaches {format_gflops(speed)}, "
        f"fp32 {format_gflops(found.best_fp32_gflops)}. {advice}"
    )


def format_gflops(speed: float) -> str:
    """Format a speed with two digits at least."""
    return f"{speed:,.0f} GFLOP/s" if speed >= 10 else f"{speed:.1f} GFLOP/s"


def attention_path(dtype: "torch.dtype", is_learning: bool, length: int) -> AttentionPath:
    """Return the faster path of attention on this CPU for sequences of about `length` tokens.

    `is_learning` is whether gradients will be taken.
    """
    import torch

    nearest = min(ATTENTION_LENGTHS, key=lambda known: abs(math.log(length / known)))
    precision = "bf16" if dtype == torch.bfloat16 else "fp32"
    name = _attention_name(precision, is_learning, nearest)
    kept = _kept[-1].attention.get(name) if _kept else None
    return kept or attention_paths()[name]


@lru_cache
def attention_paths() -> Mapping[str, AttentionPath]:
    """All of them, by names; measured where none is known.

    Those of any number of threads, as long as there are some: all processes of a run agree. The
    least disturbed measurement counts.
    """
    machine = _machine()
    known = [value for key, value in _read_cache().items() if key.startswith(f"{machine} | ")]
    if not known:
        return measured().attention
    return min(known, key=lambda value: (value.load is None, value.load)).attention


def _attention_name(precision: str, is_learning: bool, length: int) -> str:
    return f"{precision} {'learning' if is_learning else 'reading'} {length}"


def varlen_pays(device: "torch.device", with_dropout: bool) -> bool:
    """Whether attention over the whole packed row is right on a GPU, and faster than by blocks."""
    trial = varlen_trial(device)
    return trial.pays and (trial.has_dropout or not with_dropout)


@lru_cache
def varlen_trial(device: "torch.device") -> "VarlenTrial":
    """Return the outcome of a GPU's trial, from the cache if GPU and torch are the same.

    One that failed is not written down, since it may have been for want of memory.
    """
    import torch

    from bertsmith.system.varlen import VarlenTrial, try_varlen

    if device.type != "cuda" or not torch.cuda.is_available():
        return VarlenTrial(problem="there is no CUDA device")
    key = f"{torch.cuda.get_device_name(device)} | torch {torch.__version__}"
    known = _read(GPU_CACHE)
    with contextlib.suppress(KeyError, TypeError):  # not there, or of another version
        return VarlenTrial(**known[key])
    trial = try_varlen(device)
    if trial.problem is None:
        _write(GPU_CACHE, known | {key: asdict(trial)})
    return trial


def count_trainers(device: "torch.device") -> int:
    """Count the processes that train together: on a CPU one for each of torch's threads.

    Call within `compute_settings`, which may change the number of threads. Every process holds
    gradients of its own, and they must be added up, so there are no more than `MAX_TRAINERS`;
    where there are more threads, each process has several.
    """
    import torch

    return min(torch.get_num_threads(), MAX_TRAINERS) if device.type == "cpu" else 1


def describe_computing(device: "torch.device", precision: Precision, num_processes: int) -> str:
    """Describe in one line how a run computes and by which figures that was chosen."""
    import torch

    where = f"on {device} in {precision}"
    if device.type == "cuda":
        return f"{where}, {_describe_gpu_attention(device, precision)}"
    if device.type != "cpu":
        return where
    processes = "1 process" if num_processes == 1 else f"{num_processes} processes"
    threads = max(1, torch.get_num_threads() // num_processes)
    path = attention_path(
        getattr(torch, "bfloat16" if precision == "bf16" else "float32"), True, 128
    )
    reason = "as it began" if _kept else _describe_measurement(measured(), precision)
    return (
        f"{where} ({reason}), {processes} of {threads} thread{'s' if threads > 1 else ''}, "
        f"{path} attention"
    )


def _describe_measurement(found: Measurement, precision: Precision) -> str:
    """Tell in a few words by which figures precisions were chosen."""
    route = "medium" if found.float32_route == "medium" else "plain"
    fp32, bf16 = found.best_fp32_gflops, found.bf16_gflops
    busy = " while other programs were busy" if found.is_busy else ""
    slower = "; fp32 is faster" if precision == "bf16" and bf16 < fp32 else ""
    return f"measured here{busy}: bf16 {format_gflops(bf16)}, {route} fp32 {fp32:,.0f}{slower}"


def _describe_gpu_attention(device: "torch.device", precision: Precision) -> str:
    """Which way attention goes, and what that was chosen by."""
    if precision == "fp32":
        return "attention by blocks"
    trial = varlen_trial(device)
    if trial.problem is not None:
        return f"attention by blocks (not of the whole row: {trial.problem})"
    whole, blocks = 1e3 * trial.varlen_seconds, 1e3 * trial.blocks_seconds
    if not trial.pays:
        error = f", relative error {trial.error:.1e}"
        return f"attention by blocks (measured here: {blocks:.2f} ms, whole row {whole:.2f}{error})"
    limit = "" if trial.has_dropout else "; by blocks where it has dropout"
    return (
        f"attention of the whole row (measured here: {whole:.2f} ms, by blocks {blocks:.2f}{limit})"
    )


@contextlib.contextmanager
def compute_settings(device: "torch.device", threads: int | None = None) -> Iterator[None]:
    """Run a block with this machine's best thread count and fp32 route, then restore torch's own.

    Both are process-wide flags of torch, so a library must not leave them changed. On a GPU the
    other routes are TF32, with errors a thousand times those of fp32, so none of them is taken.
    """
    import torch

    threads_before = torch.get_num_threads()
    route_before = torch.get_float32_matmul_precision()
    try:
        if threads is None and _kept:
            threads = _kept[-1].threads
        if threads is not None:
            torch.set_num_threads(threads)
        route: str = "highest"
        if device.type == "cpu":
            route = _kept[-1].float32_route if _kept else measured().float32_route
        torch.set_float32_matmul_precision(route)
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_float32_matmul_precision(route_before)


def own_process() -> None:
    """Choose what only the owner of a process may. Call before torch is imported.

    The C library returns every array from 128 kB on to the system, to fetch it again page by page;
    keeping the pages of all but the largest trains a tiny model a little faster (39,000 tokens/s on
    one core, not 37,600).

    A thread of GNU OpenMP that has to wait for another spins for milliseconds by default. Where
    other programs want the cores too, it spins while the one it waits for gets no core: beside two
    busy processes on two cores the same training fell below 3,000 tokens/s. With short spins it
    makes 36,000 there, for 61,000 in place of 64,000 on a quiet machine.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_ARRAY)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def measured(*, fresh: bool = False) -> Measurement:
    """This machine's figures: from the cache when processor, threads and torch are the same.

    They are measured again, once in a process, where `_is_doubtful` says so, and with `fresh`; then
    they take the place of those in the cache.
    """
    import torch

    key = f"{_machine()} | {torch.get_num_threads()} threads"
    known = _read_cache()
    is_first, found = key not in _checked, known.get(key)
    _checked.add(key)
    if found is None or fresh or (is_first and _is_doubtful(found)):
        known[key] = found = _measure_noting_load()
        _write(CPU_CACHE, {name: asdict(value) for name, value in known.items()})
    return found


_checked: set[str] = set()
"""Which of the remembered figures this process has looked at: they are not measured at each use."""


def _is_doubtful(found: Measurement) -> bool:
    """Whether remembered figures may be wrong, and this is a time to measure them again."""
    if found.is_busy:  # the next ones would be no better while the computer still is
        load = _load_during(lambda: time.sleep(LOAD_SECONDS))
        return load is None or load <= MAX_LOAD
    return found.is_outdated or _is_underestimate(found)


def _is_underestimate(found: Measurement) -> bool:
    """Whether an fp32 product is much faster now than is remembered of it; takes some 30 ms."""
    import torch

    left, right = torch.ones(2048, 512), torch.ones(512, 512)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        seconds = _fastest(lambda: left @ right, 0.02)
    finally:
        torch.set_float32_matmul_precision(before)
    return 2 * 2048 * 512 * 512 / seconds > 1e9 * MAX_SPEEDUP * found.fp32_gflops


def _measure_noting_load() -> Measurement:
    found: list[Measurement] = []
    load = _load_during(lambda: found.append(measure()))
    return replace(found[0], measured_at=datetime.now(UTC).isoformat(timespec="seconds"), load=load)


def _load_during(work: Callable[[], object]) -> float | None:
    """The share of the cores' time that other programs had while `work` was done.

    None where the system does not tell.
    """
    before, used = _core_seconds(), time.process_time()
    work()
    used, after = time.process_time() - used, _core_seconds()
    if before is None or after is None or after[1] == before[1]:
        return None
    busy, total = after[0] - before[0], after[1] - before[1]
    return round(max(0.0, busy - used) / total, 2)


def _core_seconds() -> tuple[float, float] | None:
    """Seconds that the cores of this process were busy, and all their seconds, since the start.

    None where the system does not tell.
    """
    try:
        names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        lines = [line.split() for line in CORE_TIMES.read_text().splitlines()]
        # user, nice, system, idle, iowait, irq, softirq, steal
        times = [list(map(int, line[1:9])) for line in lines if line and line[0] in names]
        busy = sum(sum(each) - each[3] - each[4] for each in times)
        tick = os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return busy / tick, sum(map(sum, times)) / tick


def measure(size: int = 512) -> Measurement:
    """Time `[2048, size] @ [size, size]` in each precision; takes a fraction of a second.

    The time in int8 includes the rounding of the inputs.
    """
    import torch

    from bertsmith.system.int8 import Int8Linear, can_quantize

    generator = torch.Generator().manual_seed(0)
    left = torch.randn(2048, size, generator=generator)
    right = torch.randn(size, size, generator=generator)
    exact = left[:64].double() @ right.double()
    flops = 2 * 2048 * size * size

    def error(product: torch.Tensor) -> float:
        return float((product[:64].double() - exact).norm() / exact.norm())

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        fp32 = flops / _fastest(lambda: left @ right)
        torch.set_float32_matmul_precision("medium")
        medium = flops / _fastest(lambda: left @ right)
        medium_error = error(left @ right)
    finally:
        torch.set_float32_matmul_precision(before)
    # Without oneDNN's kernels a product takes a second: a sixteenth of the rows will do.
    num_rows = len(left) if multiplies_bf16() else len(left) // 16
    left_bf16, right_bf16 = left[:num_rows].bfloat16(), right.bfloat16()
    bf16 = flops * num_rows / len(left) / _fastest(lambda: left_bf16 @ right_bf16)
    int8_gflops = int8_error = None
    if can_quantize():
        linear = torch.nn.utils.skip_init(torch.nn.Linear, size, size)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            linear.weight.copy_(right.T)
            linear.bias.zero_()
            layer = Int8Linear(linear)
            int8_gflops = round(flops / _fastest(lambda: layer(left)) / 1e9, 1)
            int8_error = error(layer(left))
    with torch.inference_mode(False), torch.enable_grad():  # whatever the caller's mode is
        attention = {
            _attention_name(precision, is_learning, length): _faster_attention(
                dtype, is_learning, length
            )
            for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
            for is_learning in (False, True)
            for length in ATTENTION_LENGTHS
        }
    return Measurement(
        processor=_processor_name(),
        threads=torch.get_num_threads(),
        fp32_gflops=round(fp32 / 1e9, 1),
        fp32_medium_gflops=round(medium / 1e9, 1),
        fp32_medium_error=medium_error,
        bf16_gflops=round(bf16 / 1e9, 1),
        bf16_error=error(left_bf16 @ right_bf16),
        int8_gflops=int8_gflops,
        int8_error=int8_error,
        attention=attention,
    )


def _faster_attention(dtype: "torch.dtype", is_learning: bool, length: int) -> AttentionPath:
    """Time both paths of model/attention.py, for 1,024 tokens of two heads."""
    import torch
    import torch.nn.functional as F

    if dtype == torch.bfloat16 and not multiplies_bf16():
        return "fused"  # plain products took 2 to 30 times as long on a Zen 3, up to a second each
    size, sequences = 64, 1024 // length
    parts = torch.randn(3, sequences, 2, length, size).to(dtype).requires_grad_(is_learning)

    def explicit() -> torch.Tensor:
        query, key, value = (part.flatten(0, 1) for part in parts)
        bias = query.new_zeros(1, 1, 1)
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=size**-0.5)
        return torch.bmm(scores.softmax(-1), value)

    def time_of(attend: Callable[[], torch.Tensor]) -> float:
        if is_learning:
            return _fastest(lambda: attend().sum().backward(), ATTENTION_SECONDS)  # type: ignore[no-untyped-call]
        with torch.inference_mode():
            return _fastest(attend, ATTENTION_SECONDS)

    fused = time_of(lambda: F.scaled_dot_product_attention(*parts))
    return "fused" if MIN_FUSED_GAIN * fused < time_of(explicit) else "explicit"


def _machine() -> str:
    """Processor, the instructions that may be used, torch: what all figures depend on."""
    import torch

    limits = [f"{name}={os.environ[name]}" for name in INSTRUCTION_LIMITS if name in os.environ]
    instructions = " ".join([torch.backends.cpu.get_cpu_capability(), *limits])
    return f"{_processor_name()} | {instructions} | torch {torch.__version__}"


def _fastest(run: Callable[[], object], seconds: float = 0.1) -> float:
    """The shortest of the calls that fit into `seconds`: other load only ever adds time."""
    run()
    best, deadline = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best if best < float("inf") else seconds


def _processor_name() -> str:
    """The processor's model and a short hash of its features: virtual machines hide the model."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(
        reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line])
    )
    features = facts.get("flags") or facts.get("Features") or ""
    name = facts.get("model name") or platform.machine()
    return f"{name} ({hashlib.sha256(features.encode()).hexdigest()[:8]})"


def _read_cache() -> dict[str, Measurement]:
    try:
        return {key: Measurement(**value) for key, value in _read(CPU_CACHE).items()}
    except TypeError:
        return {}  # of another version: measure again


def _cache_path(name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bertsmith" / name


def _read(name: str) -> dict[str, Any]:
    try:
        return dict(json.loads(_cache_path(name).read_text(encoding="utf-8")))
    except (OSError, RuntimeError, ValueError, TypeError):
        return {}  # no home folder; absent or damaged


def _write(name: str, content: Mapping[str, Any]) -> None:
    # The cache is only a convenience: a full disk or a missing home folder must not stop a run.
    with contextlib.suppress(InputError, RuntimeError):
        write_json(_cache_path(name), content)
