"""Linear layers in whole numbers of 8 bits: weights rounded once, what they multiply at each call.

A weight has a step of its own for each output (symmetric, -127 to 127); what enters a layer has
one for the call, from its least to its greatest value (0 to 255). The product is exact, and comes
back as fp32 or bf16. So a text's vector depends a little on which texts share its batch.
With VNNI products take half as long as in bf16 (one thread of a Zen 4). Without it they gain less,
and weights are rounded to larger steps, so that no sum of two products overflows.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MAGIC = 1.5 * 2**23
"""Added to a small fp32 number, it rounds it to the nearest whole one, which then stands in the
lowest bits: rounding and conversion in two passes over memory instead of five."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies in int8 and gives `out_dtype`, fp32 or bf16."""

    def __init__(self, linear: nn.Linear, out_dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.out_dtype = out_dtype
        self.bias = linear.bias.detach().float()
        weight = linear.weight.detach().float()
        self.scales = weight_scales(weight, in_pairs=saturates())
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.zero_points = torch.zeros(len(rounded), dtype=torch.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Put the weight back in its plain order, which alone can be copied and pickled."""
        return {**self.__dict__, "weight": self.weight.to_dense().t().contiguous()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.weight = torch.ops.onednn.qlinear_prepack(self.weight, None)

    def forward(self, x: Tensor) -> Tensor:
        """[tokens, in_features] to [tokens, out_features]."""
        rounded, scale, zero_point = quantize_to_bytes(x.float())
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded,
            scale,
            zero_point,
            self.weight,
            self.scales,
            self.zero_points,
            self.bias,
            1.0,
            0,
            self.out_dtype,
            "none",
            [],
            "",
        )
        return product


def weight_scales(weight: Tensor, *, in_pairs: bool) -> Tensor:
    """Compute the step of each output's weights, fp32 `[out_features]`.

    `in_pairs` keeps the sum of two neighbouring weights of one sign within 128 steps: 255 times
    that fits into the 16 bits in which processors without VNNI add two products (vpmaddubsw).
    Steps grow by a quarter (all-MiniLM-L6-v2); weights of 7 bits would double them.
    """
    largest = weight.abs().amax(1)
    if in_pairs:
        pairs = F.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2)
        above, below = pairs.clamp_min(0).sum(2), pairs.clamp_max(0).sum(2)
        largest = torch.maximum(above, -below).amax(1)
    # Two weights of 63.5 steps are rounded to 64 each, so 127 steps become 128 at most.
    return largest.clamp_min(torch.finfo(torch.float32).tiny) / 127


@lru_cache
def saturates() -> bool:
    """Try whether oneDNN cuts off the sum of two large products, as it does without VNNI."""
    size = 64
    packed = torch.ops.onednn.qlinear_prepack(torch.full((size, size), 127, dtype=torch.int8), None)
    ones, zeros = torch.ones(size), torch.zeros(size, dtype=torch.int32)

    def multiply(num_rows: int) -> Tensor:
        x = torch.full((num_rows, size), 255, dtype=torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            x, 1.0, 0, packed, ones, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product

    # oneDNN may have one kernel for a single row and one for many.
    return any(bool((multiply(num_rows) != 255 * 127 * size).any()) for num_rows in (1, 32))


def can_quantize() -> bool:
    """Whether this build of torch has oneDNN's int8 kernels for the processor."""
    return has_onednn() and hasattr(torch.ops.onednn, "qlinear_pointwise")


def has_onednn() -> bool:
    """Whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def quantize_to_bytes(x: Tensor) -> tuple[Tensor, float, int]:
    """uint8 `q` of the shape of `x` with its scale and zero point: `x` is near
    `(q - zero_point) * scale`, to half a scale; 0 is exact. `x` must be fp32."""
    low, high = map(float, x.aminmax())
    low, high = min(low, 0.0), max(high, 0.0)
    # At least 1e-30, so that a row of zeros has a scale too; a hair wider, so that 255 suffices.
    scale = max((high - low) / 254.9, 1e-30)
    zero_point = round(-low / scale)
    shifted = torch.add(x.new_tensor(MAGIC + zero_point), x, alpha=1 / scale)
    return shifted.view(torch.int32).to(torch.uint8), scale, zero_point
