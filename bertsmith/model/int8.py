"""Linear layers in 8-bit integers: weights are rounded once, inputs at each call.

Weights have a scale for each output (symmetric, -127 to 127). Inputs (0 to 255) have a scale for
each token, so a text's vector does not depend on the texts that share its batch. The product of the
integers is exact; it is scaled in fp32 and returned in fp32 or bf16. With VNNI, products take half
as long as in bf16 (one thread of a Zen 4). Without VNNI they gain less, and scales are larger, so
that no sum of two products overflows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.errors import option
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import FeedForward
from bertsmith.system.matrix_products import (
    SIZE,
    format_gflops,
    gflops,
    has_onednn,
    measured_products,
    multiplies_bf16,
    relative_error,
    threads_key,
    trial_matrices,
)
from bertsmith.system.measurements import remember

MAGIC = 1.5 * 2**23
"""Adding this to a small fp32 number rounds it to the nearest integer, which is then in the lowest
bits of the sum. So rounding and conversion take two passes over memory instead of five."""
CENTER = 128
"""The byte of 0 in inputs that reach about as far below 0 as above."""
AFTER_ACTIVATION = 32
"""The byte of 0 after GELU, SiLU or ReLU, whose values are at least -0.28. With a lower one, -0.28
would decide the scale of most tokens."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies in int8 and gives `out_dtype`, fp32 or bf16.

    It maps [tokens, in_features] of any floating dtype to [tokens, out_features]. The weight has a
    scale for each output, the input one for each token.

    Args:
        linear: the layer that it replaces.
        out_dtype: dtype of its output.
        zero_point: the byte of 0 in the rounded input; lower where the input is mostly above 0.
    """

    def __init__(
        self,
        linear: nn.Linear,
        out_dtype: torch.dtype = torch.float32,
        zero_point: int = CENTER,
    ) -> None:
        super().__init__()
        self.out_dtype = out_dtype
        self.zero_point = zero_point
        weight = linear.weight.detach().float()
        self.bias = weight.new_zeros(len(weight))
        if linear.bias is not None:
            self.bias = linear.bias.detach().float()
        self.scales = weight_scales(weight, in_pairs=saturates())
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.zero_points = torch.zeros(len(rounded), dtype=torch.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the weight in plain order, since a packed one cannot be pickled."""
        return {**self.__dict__, "weight": self.weight.to_dense().t().contiguous()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.weight = torch.ops.onednn.qlinear_prepack(self.weight, None)

    def forward(self, x: Tensor) -> Tensor:
        rounded, scales = quantize_rows(x.float(), self.zero_point)
        product = torch.ops.onednn.qlinear_pointwise(
            rounded,
            1.0,  # scale of the input; `forward` multiplies by those of the rows itself
            self.zero_point,
            self.weight,
            self.scales,
            self.zero_points,
            None,  # no bias: it is added after the scales of the rows
            1.0,  # scale and zero point of an output in int8, which this is not
            0,
            torch.float32,
            "none",  # no operation after the product
            [],
            "",
        )
        return product.mul_(scales).add_(self.bias).to(self.out_dtype)


def weight_scales(weight: Tensor, *, in_pairs: bool) -> Tensor:
    """Compute the scale of each output's weights, fp32 `[out_features]`.

    `in_pairs` keeps the sum of two neighbouring weights of one sign within 128 scales: 255 times
    128 fits into the 16 bits in which processors without VNNI add two products (vpmaddubsw). That
    makes scales a quarter larger (all-MiniLM-L6-v2); weights of 7 bits would double them.
    """
    largest = weight.abs().amax(1)
    if in_pairs:
        pairs = F.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2)
        above, below = pairs.clamp_min(0).sum(2), pairs.clamp_max(0).sum(2)
        largest = torch.maximum(above, -below).amax(1)
    # Two weights of 63.5 scales are rounded to 64 each, so a sum of 127 becomes 128 at most.
    return largest.clamp_min(torch.finfo(torch.float32).tiny) / 127


@lru_cache
def saturates() -> bool:
    """Return whether oneDNN cuts off the sum of two large products, as it does without VNNI."""
    size = 64
    packed = torch.ops.onednn.qlinear_prepack(torch.full((size, size), 127, dtype=torch.int8), None)
    ones, zeros = torch.ones(size), torch.zeros(size, dtype=torch.int32)

    def multiply(num_rows: int) -> Tensor:
        x = torch.full((num_rows, size), 255, dtype=torch.uint8)
        return torch.ops.onednn.qlinear_pointwise(
            x, 1.0, 0, packed, ones, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )

    # oneDNN may have one kernel for a single row and one for many.
    return any(bool((multiply(num_rows) != 255 * 127 * size).any()) for num_rows in (1, 32))


def can_quantize() -> bool:
    """Return whether this build of torch has oneDNN's int8 kernels."""
    return has_onednn() and hasattr(torch.ops.onednn, "qlinear_pointwise")


@dataclass(frozen=True)
class _Int8Speed:
    """Speed of an int8 product in GFLOP/s over all threads, and its relative error."""

    int8_gflops: float
    int8_error: float


def int8_speed() -> _Int8Speed | None:
    """Return speed and error of int8 products, measured once; rounding of inputs is included.

    The result is None if torch cannot quantize.
    """
    if not can_quantize():
        return None
    return remember(threads_key("int8"), _measure_int8, _Int8Speed).value


@torch.no_grad()
def _measure_int8() -> _Int8Speed:
    left, right = trial_matrices()
    linear = torch.nn.utils.skip_init(nn.Linear, SIZE, SIZE)  # type: ignore[no-untyped-call]
    linear.weight.copy_(right.T)
    linear.bias.zero_()
    layer = Int8Linear(linear)
    return _Int8Speed(gflops(lambda: layer(left)), relative_error(layer(left)))


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


def quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    """Quantize fp32 `x` `[rows, columns]` to uint8, with fp32 scales `[rows, 1]`.

    `x` is near `(q - zero_point) * scale`, to half a scale; 0 is exact. A row that has NaN or an
    infinite number has such a scale, too.
    """
    # torch's aminmax takes ten times as long as both of these.
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    scales = torch.maximum(high / (255 - zero_point), low / -zero_point)
    scales.clamp_(min=1e-30)  # rows of zeros have a scale, too
    shifted = (x * (1 / scales)).add_(MAGIC + zero_point)
    return shifted.view(torch.int32).to(torch.uint8), scales


class _PrepackedLinear(nn.Module):
    """A linear layer whose weight is stored in oneDNN's order, in fp32 or bf16 as before."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.dtype = linear.weight.dtype
        is_upcast = self.dtype == torch.bfloat16 and not multiplies_bf16()
        self.product_dtype = torch.float32 if is_upcast else self.dtype
        bias = linear.bias
        self.bias = None if bias is None else bias.detach().to(self.product_dtype)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(
            linear.weight.detach().to(self.product_dtype)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "weight": self.weight.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(self.product_dtype), self.weight, self.bias, "none", [], ""
        )
        return product.to(self.dtype)


def can_prepack() -> bool:
    return has_onednn() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


# oneDNN reorders a plain weight at each call. Reordered once, products are 15 to 20 % faster in
# fp32 and 7 to 15 % in bf16 (one thread of a Zen 4). Where the processor does not multiply in bf16,
# torch's own product takes 80 times as long as in fp32 (Zen 3): there a bf16 weight is packed as
# fp32, and only the result is rounded. Such a model can be neither trained nor saved.
def prepack(model: BertModel) -> None:
    """Replace the encoder's linear layers by prepacked ones of the same dtype, if torch can."""
    if can_prepack():
        _replace_linears(model, lambda module, name, linear: _PrepackedLinear(linear))


def quantize(model: BertModel, attention_dtype: torch.dtype) -> None:
    """Replace the encoder's linear layers by int8 ones and set the dtype of attention.

    Scores and weighted means are computed in `attention_dtype`; everything else stays fp32.
    """

    def replace(module: nn.Module, name: str, linear: nn.Linear) -> Int8Linear:
        is_after_activation = isinstance(module, FeedForward) and linear is module.down
        return Int8Linear(
            linear,
            attention_dtype if name == "qkv" else torch.float32,
            AFTER_ACTIVATION if is_after_activation else CENTER,
        )

    _replace_linears(model, replace)


def _replace_linears(
    model: BertModel, make: Callable[[nn.Module, str, nn.Linear], nn.Module]
) -> None:
    with torch.no_grad():
        for module in list(model.layers.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, make(module, name, child))
