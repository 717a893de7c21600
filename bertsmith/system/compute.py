"""Settings of device, precision, threads and tracking, which a command's settings inherit."""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Literal, TypeVar

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_largest

T = TypeVar("T")
ADVANCED = "advanced"
Advanced = Annotated[T, ADVANCED]
"""Type of a setting that few people change: only --help-all shows it."""

FREE = {"resume": "free"}
"""Metadata of a setting that may have another value when a run is resumed."""


@dataclass(frozen=True, kw_only=True)
class InferenceCompute:
    """Device and number format of a command that uses a model without training it."""

    device: Advanced[str] = "auto"
    """Device: auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """Number format of the computation: fp32, bf16, int8 (on a CPU; the least exact, and the
    fastest on processors with VNNI), or auto: bf16 if a CPU multiplies in it at least 1.3 times as
    fast as in fp32, or if a CUDA GPU has it; else fp32."""


@dataclass(frozen=True, kw_only=True)
class Compute(InferenceCompute):
    """Device, number format, threads and tracker of a command that trains."""

    precision: Advanced[Literal["auto", "fp32", "bf16"]] = "auto"
    """Number format of the computation: fp32, bf16, or auto: bf16 if a CPU multiplies in it at
    least 1.3 times as fast as in fp32, or if a CUDA GPU has it; else fp32."""
    threads: Advanced[int | None] = field(default=None, metadata=FREE)
    """Number of processor threads, at most one for each core that this process may use. By default
    that of torch: one for each core, unless OMP_NUM_THREADS is set."""
    exact: Advanced[bool] = field(default=False, metadata=FREE)
    """Train the same weights, bit for bit, on 1, 2, 3, 4, 6 or 12 ranks, with any number of
    processor threads, if their CPUs are of one kind: each step has twelve shares, whose gradients
    are added in one order. This is slower."""
    report_to: Advanced[Literal["wandb", "mlflow"] | None] = field(default=None, metadata=FREE)
    """Service to send the metrics to, in addition to journal and TensorBoard: wandb or mlflow.
    Install its package and set it up before."""

    def __post_init__(self) -> None:
        if self.report_to is not None and not is_installed(self.report_to):
            raise ConfigError(
                f"{option('report_to', self.report_to)} needs the package {self.report_to}, which "
                f"is not installed. Run: pip install {self.report_to}, or leave the option out."
            )
        check_largest("threads", self.threads)
        if self.threads is not None and self.threads < 1:
            raise SettingError("threads", self.threads, "1 or more")


def is_installed(package: str) -> bool:
    """Return whether a package is installed; a folder that has only its name does not count."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def refuse_beside_scheduler(scheduler: str | None, **others: object) -> None:
    """Refuse options that divide work among processes if there is a scheduler of Dask.

    The scheduler divides the work itself, among its workers.

    Raises:
        ConfigError: `scheduler` and one of `others` are not None.
    """
    given_names = [name for name, value in others.items() if value is not None]
    if scheduler is not None and given_names:
        raise ConfigError(
            f"Give either {option('scheduler')} or {option(given_names[0])}, not both: the "
            "scheduler's workers do the work."
        )
