"""The speed of int8 products on this computer, and a note if a precision is no faster than fp32.

Speeds of products in fp32 and bf16 are measured elsewhere (`measured_products`). `remember` stores
each measurement in a file of this computer, so that later processes need not repeat it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertsmith.errors import option
from bertsmith.model.int8 import Int8Linear, can_quantize
from bertsmith.system.matrix_products import (
    MAX_RATIO,
    SIZE,
    format_gflops,
    gflops,
    measured_products,
    multiplies_bf16,
    relative_error,
    threads_key,
    trial_matrices,
    using_route,
)
from bertsmith.system.measurements import check_numbers, remember

ROUND_SECONDS = 0.03
"""Seconds for which a product is timed in one round."""
MIN_ROUNDS, MAX_ROUNDS = 3, 15
"""Fewest and most rounds: 0.2 to 0.9 seconds in all."""
MIN_REFERENCE_SHARE = 0.9
"""Share of its known speed that the fp32 product reaches in one of the rounds, unless another
program slows all rounds."""


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
    key = threads_key("int8")
    return remember(key, _measure_int8, Int8Speed, is_wrong=_is_disproved).value


@torch.no_grad()
def _measure_int8() -> Int8Speed:
    """Time an int8 product and, in turns with it, the fp32 product whose speed is known."""
    left, layer = _trial_layer()
    products = measured_products().value
    right = trial_matrices()[1]

    def fp32_speed() -> float:
        # torch can multiply in fp32 by several routes; this is the one measured as the fastest.
        with using_route(products.float32_route):
            return gflops(lambda: left @ right, seconds=ROUND_SECONDS)

    speed = highest_speed(
        lambda: gflops(lambda: layer(left), seconds=ROUND_SECONDS),
        fp32_speed,
        MIN_REFERENCE_SHARE * products.best_fp32_gflops,
    )
    return Int8Speed(speed, relative_error(layer(left)))


def highest_speed(
    measure: Callable[[], float], reference: Callable[[], float], expected: float
) -> float:
    """Return the highest of several measurements of a speed, as other programs only lower it.

    If other programs are at work all the time, they lower all measurements. To notice that, a
    reference that is known to reach the speed `expected` is measured in turns with the other one.
    Measuring ends after `MIN_ROUNDS` or more, as soon as the reference has reached `expected` once,
    or after `MAX_ROUNDS`.
    """
    speed = reference_speed = 0.0
    for count in range(1, MAX_ROUNDS + 1):
        speed = max(speed, measure())
        reference_speed = max(reference_speed, reference())
        if count >= MIN_ROUNDS and reference_speed >= expected:
            break
    return speed


@torch.no_grad()
def _trial_layer() -> tuple[Tensor, Int8Linear]:
    """Return the rows to be multiplied, fp32 `[2048, 512]`, and the int8 layer for them.

    They are the two trial matrices, whose exact product `relative_error` compares with.
    """
    left, right = trial_matrices()
    linear = torch.nn.utils.skip_init(nn.Linear, SIZE, SIZE)  # type: ignore[no-untyped-call]
    linear.weight.copy_(right.T)
    linear.bias.zero_()
    return left, Int8Linear(linear)


@torch.no_grad()
def _is_disproved(stored: Int8Speed) -> bool:
    """Time the product again, for some 30 ms, and compare with the stored speed."""
    left, layer = _trial_layer()
    speed = gflops(lambda: layer(left), seconds=ROUND_SECONDS)
    return not stored.int8_gflops / MAX_RATIO < speed < MAX_RATIO * stored.int8_gflops


def slower_note(precision: str) -> str | None:
    """Return a note if fp32 is as fast on this CPU as `precision`, else None."""
    if precision == "fp32":
        return None
    advice = f"{option('precision', 'fp32')} is as fast here, and more exact."
    if precision == "bf16" and not multiplies_bf16():
        return f"bf16: this processor does not multiply in it. {advice}"
    products = measured_products().value
    int8 = int8_speed() if precision == "int8" else None
    fp32 = products.best_fp32_gflops
    speed = products.bf16_gflops if int8 is None else int8.int8_gflops
    if speed > fp32:
        return None
    return (
        f"{precision}: measured on this computer, it reaches {format_gflops(speed)}, "
        f"fp32 {format_gflops(fp32)}. {advice}"
    )
