"""Speed and error of this machine's matrix products, by which precision is chosen.

bf16 is several times faster than fp32 on processors with AVX512-BF16 or AMX, and slower on x86
processors without them. torch's fp32 setting "medium" hands products to oneDNN, which is faster on
some processors. On most processors its results are still true fp32; on some it rounds numbers to
bf16 without saying so.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from bertsmith.system.forks import ForkSafeLock
from bertsmith.system.measurements import (
    Measured,
    check_numbers,
    machine_key,
    remember,
    shortest_seconds,
)

Precision = Literal["fp32", "bf16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
Float32Route = Literal["highest", "medium"]
"""Way in which torch multiplies fp32 matrices, named as in `torch.set_float32_matmul_precision`."""

# A product is "true fp32" when its relative error stays within a few rounding units of 6e-8 each;
# the error grows with the square root of the 512 terms summed. Rounded to bf16 it is about 3e-3.
MAX_FLOAT32_ERROR = 2e-6
# Numbers rounded to bf16 give about 3e-3; a sum kept in bf16 as well would be several times that.
MAX_BF16_ERROR = 1e-2
# bf16 also costs casts and a second copy of the weights, so it must be clearly faster.
MIN_BF16_GAIN = 1.3
MAX_RATIO = 1.5
"""A stored measurement is wrong if a product is this many times faster or slower now."""

# Shapes of the two matrices whose product is timed: [NUM_ROWS, SIZE] and [SIZE, SIZE]
NUM_ROWS = 2048
SIZE = 512

_routes: list[str] = []
"""The program's route, then the route of each open `using_route` block; empty without a block."""
_changing_route = ForkSafeLock()
"""Held while the route is changed."""


@dataclass(frozen=True)
class ProductSpeeds:
    """Speeds of a matrix product in GFLOP/s over all threads, and relative errors."""

    fp32_gflops: float
    fp32_medium_gflops: float
    fp32_medium_error: float
    bf16_gflops: float
    bf16_error: float

    def __post_init__(self) -> None:
        check_numbers(self)

    @property
    def float32_route(self) -> Float32Route:
        """The fastest setting of torch's fp32 products that is still fp32."""
        is_exact = self.fp32_medium_error <= MAX_FLOAT32_ERROR
        return "medium" if is_exact and self.fp32_medium_gflops > self.fp32_gflops else "highest"

    @property
    def precision(self) -> Precision:
        """bf16 if it is clearly faster than the best true fp32, and as exact as bf16 should be."""
        is_exact = self.bf16_error <= MAX_BF16_ERROR
        is_faster = self.bf16_gflops >= MIN_BF16_GAIN * self.best_fp32_gflops
        return "bf16" if is_exact and is_faster else "fp32"

    @property
    def best_fp32_gflops(self) -> float:
        return self.fp32_medium_gflops if self.float32_route == "medium" else self.fp32_gflops


def measured_products() -> Measured[ProductSpeeds]:
    """Return the speeds with torch's current number of threads, stored on disk or measured now."""
    key = threads_key("products")
    return remember(key, measure_products, ProductSpeeds, is_wrong=_is_disproved)


def threads_key(name: str) -> str:
    """Name a measurement that depends on the number of threads."""
    return f"{machine_key()} | {torch.get_num_threads()} threads | {name}"


def measure_products() -> ProductSpeeds:
    """Time a product in each precision; takes a fraction of a second."""
    left, right = trial_matrices()
    with using_route("highest"):
        fp32 = gflops(lambda: left @ right)
    with using_route("medium"):
        medium = gflops(lambda: left @ right)
        medium_error = relative_error(left @ right)
    # Without oneDNN's kernels a bf16 product takes a second, so it is timed on fewer rows.
    num_rows = NUM_ROWS if multiplies_bf16() else NUM_ROWS // 16
    left, right = left[:num_rows].bfloat16(), right.bfloat16()
    bf16 = gflops(lambda: left @ right, num_rows)
    return ProductSpeeds(fp32, medium, medium_error, bf16, relative_error(left @ right))


def trial_matrices(num_rows: int = NUM_ROWS) -> tuple[Tensor, Tensor]:
    """Return the two matrices to be timed, fp32 `[num_rows, 512]` and `[512, 512]`."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(num_rows, SIZE, generator=generator)
    return left, torch.randn(SIZE, SIZE, generator=generator)


def relative_error(product: Tensor) -> float:
    """Return the relative error of a product of `trial_matrices`, in its first 64 rows.

    `product` is `[rows, 512]` of any floating dtype.
    """
    left, right = trial_matrices()
    exact = left[:64].double() @ right.double()
    return float((product[:64].double() - exact).norm() / exact.norm())


def gflops(multiply: Callable[[], object], num_rows: int = NUM_ROWS, seconds: float = 0.1) -> float:
    """Time `multiply` for `seconds`; return its speed in GFLOP/s.

    It multiplies `num_rows` rows by the second trial matrix.
    """
    flops = 2 * num_rows * SIZE * SIZE
    return round(flops / shortest_seconds(multiply, seconds) / 1e9, 1)


def _is_disproved(speeds: ProductSpeeds) -> bool:
    """Time the chosen kind of product again, for some 50 ms, and compare with `speeds`.

    Half the rows give the same speed and save memory: predicting a text peaks at 265 MiB, not 273.
    """
    num_rows = NUM_ROWS // 2
    left, right = trial_matrices(num_rows)
    expected = speeds.best_fp32_gflops
    if speeds.precision == "bf16":
        left = left.bfloat16()
        right = right.bfloat16()
        expected = speeds.bf16_gflops
    product = left @ right
    with using_route(speeds.float32_route):
        multiply = partial(torch.mm, left, right, out=product)
        speed = gflops(multiply, num_rows, seconds=0.03)
    return not expected / MAX_RATIO < speed < MAX_RATIO * expected


@contextlib.contextmanager
def using_route(route: Float32Route) -> Iterator[None]:
    """Compute a block's fp32 products by this route.

    The setting is process-wide, and several threads may be in such a block. The last block to end
    restores the setting from before the first.
    """
    with _changing_route:
        if not _routes:
            _routes.append(torch.get_float32_matmul_precision())
        _routes.append(route)
        torch.set_float32_matmul_precision(route)
    try:
        yield
    finally:
        with _changing_route:
            # The last entry with this name is removed. The first one, which `list.remove` would
            # take, may belong to an outer block or to the program.
            last = max(i for i, other in enumerate(_routes) if other == route)
            del _routes[last]
            torch.set_float32_matmul_precision(_routes[-1])
            if len(_routes) == 1:
                _routes.clear()


def has_onednn() -> bool:
    """Return whether torch has oneDNN, and the user has not turned it off."""
    is_available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return is_available and bool(torch.backends.mkldnn.enabled)


def multiplies_bf16() -> bool:
    """Return whether oneDNN has bf16 kernels for the instructions that it may use here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def format_gflops(speed: float) -> str:
    return f"{speed:,.0f} GFLOP/s" if speed >= 10 else f"{speed:.1f} GFLOP/s"
