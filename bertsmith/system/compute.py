"""Settings of where and how a command computes, which its own settings inherit."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from bertsmith.errors import ConfigError
from bertsmith.system.bounds import check_largest

T = TypeVar("T")
ADVANCED = "advanced"
Advanced = Annotated[T, ADVANCED]
"""Type of a setting that few people change: only --help-all shows it."""

FREE = {"resume": "free"}
"""Metadata of a setting that may differ when a run is resumed."""


@dataclass(frozen=True, kw_only=True)
class InferenceCompute:
    """Device and number format of a command that only reads with a model."""

    device: Advanced[str] = "auto"
    """Device: auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """Number format of the computation: fp32, bf16, int8 (on a CPU; the least exact, and the
    fastest where the processor has VNNI), or auto for the faster of fp32 and bf16."""


@dataclass(frozen=True, kw_only=True)
class Compute(InferenceCompute):
    """Device, number format and threads of a command that trains."""

    precision: Advanced[Literal["auto", "fp32", "bf16"]] = "auto"
    """Number format of the computation: fp32, bf16, or auto for this machine's fastest."""
    threads: Advanced[int | None] = field(default=None, metadata=FREE)
    """Number of processor threads; by default one for each core."""

    def __post_init__(self) -> None:
        check_largest("threads", self.threads, "--threads")
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"--threads: found {self.threads}; allowed is 1 or more.")
