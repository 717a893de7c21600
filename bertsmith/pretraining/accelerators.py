"""Accelerators by their published speed, on which the time of a run can be forecast."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bertsmith.errors import SettingError

Hardware = Literal["B200", "H200", "H100", "A100", "L40S", "L4", "RTX-4090", "RTX-3090"]

PEAKS: Mapping[str, float] = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX-4090": 165e12,
    "RTX-3090": 71e12,
}
"""Operations per second in bf16, without sparsity, from the makers' data sheets (SXM where there
are several forms; for RTX cards with fp32 accumulation)."""


@dataclass(frozen=True)
class Accelerator:
    """Hardware elsewhere: its operations per second, and the efficiency of training."""

    name: str
    flops: float
    efficiency: float

    def __post_init__(self) -> None:
        if not 0 < self.flops < math.inf:
            raise SettingError("flops", self.flops, "above 0, as 989e12")
        if not 0 < self.efficiency <= 1:
            raise SettingError("efficiency", self.efficiency, "above 0, at most 1")


def accelerators(
    names: Sequence[Hardware], flops: float | None, efficiency: float
) -> list[Accelerator]:
    """Select `names` from `PEAKS`; add one of `flops` operations per second."""
    chosen = [Accelerator(name, PEAKS[name], efficiency) for name in names]
    if flops is not None:
        chosen.append(Accelerator(f"{flops:.3g} FLOP/s", flops, efficiency))
    return chosen
