"""The speed of int8 products here, and a note on a precision that is no faster than fp32."""

from dataclasses import dataclass

import torch
from torch import nn

from bertsmith.errors import option
from bertsmith.model.int8 import Int8Linear, can_quantize
from bertsmith.system.matrix_products import (
    SIZE,
    format_gflops,
    gflops,
    measured_products,
    multiplies_bf16,
    relative_error,
    threads_key,
    trial_matrices,
)
from bertsmith.system.measurements import check_numbers, remember


@dataclass(frozen=True)
class Int8Speed:
    """Speed of an int8 product in GFLOP/s over all threads, and its relative error."""

    int8_gflops: float
    int8_error: float

    def __post_init__(self) -> None:
        check_numbers(self)


def int8_speed() -> Int8Speed | None:
    """Return speed and error of int8 products, measured once; rounding of inputs is included.

    The result is None if torch cannot quantize.
    """
    if not can_quantize():
        return None
    return remember(threads_key("int8"), _measure_int8, Int8Speed).value


@torch.no_grad()
def _measure_int8() -> Int8Speed:
    left, right = trial_matrices()
    linear = torch.nn.utils.skip_init(nn.Linear, SIZE, SIZE)  # type: ignore[no-untyped-call]
    linear.weight.copy_(right.T)
    linear.bias.zero_()
    layer = Int8Linear(linear)
    return Int8Speed(gflops(lambda: layer(left)), relative_error(layer(left)))


def slower_note(precision: str) -> str | None:
    """Return a note if fp32 is as fast on this CPU as `precision`, else None."""
    if precision == "fp32":
        return None
    advice = f"{option('precision', 'fp32')} is as fast here, and more exact."
    if precision == "bf16" and not multiplies_bf16():
        return f"bf16: this processor does not multiply in it. {advice}"
    products = measured_products().value
    int8 = int8_speed()
    fp32, speed = products.best_fp32_gflops, products.bf16_gflops
    if precision == "int8" and int8 is not None:
        speed = int8.int8_gflops
    if speed > fp32:
        return None
    return (
        f"{precision}: measured on this computer, it reaches {format_gflops(speed)}, "
        f"fp32 {format_gflops(fp32)}. {advice}"
    )
