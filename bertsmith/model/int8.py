"""Linear layers in 8-bit integers: weights are rounded once, inputs at each call.

Weights have a scale for each output (symmetric, -127 to 127). Inputs (0 to 255) have a scale for
each token, so a text's vector does not depend on the texts that share its batch. The product of the
integers is exact; it is scaled in fp32 and returned in fp32 or bf16. With VNNI, products take half
as long as in bf16 (one thread of a Zen 4). Without VNNI they gain less, and scales are larger, so
that no sum of two products overflows.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.model.activations import IN_PLACE, Activation, lowest_output
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import FeedForward
from bertsmith.model.linear_layers import replace_linears
from bertsmith.system.matrix_products import has_onednn

MAGIC = 1.5 * 2**23
"""Adding this to a small fp32 number rounds it to the nearest integer, which is then in the lowest
bits of the sum. The lowest byte of 1.5 · 2²³ is 0, and the cast to uint8 keeps the lowest byte. So
rounding and conversion take two passes over memory instead of five."""
CENTERED_ZERO = 128
"""Zero point of inputs that reach about as far below 0 as above: the byte that stands for 0."""
ZERO_AFTER_ACTIVATION = 32
"""Zero point of inputs after GELU, SiLU or ReLU, whose values are at least -0.28. With a lower zero
point, the value -0.28 would decide the scale of most tokens."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies in int8 and gives `out_dtype`, fp32 or bf16.

    It maps [tokens, in_features] of any floating dtype to [tokens, out_features]. The weight has a
    scale for each output, the input one for each token.

    Args:
        linear: the layer that it replaces.
        out_dtype: dtype of its output.
        activation: the activation function whose outputs are the inputs of this layer, if there is
            one. Such inputs are mostly above 0, so their zero point is lower. The layer overwrites
            them, as no other module reads them.
    """

    def __init__(
        self,
        linear: nn.Linear,
        out_dtype: torch.dtype = torch.float32,
        activation: Activation | None = None,
    ) -> None:
        super().__init__()
        self.out_dtype = out_dtype
        self.overwrites_input = activation is not None
        self.input_zero_point = CENTERED_ZERO if activation is None else ZERO_AFTER_ACTIVATION
        self.lowest_input = None if activation is None else lowest_output(activation)
        weight = linear.weight.detach().float()
        self.bias = weight.new_zeros(len(weight))
        if linear.bias is not None:
            self.bias = linear.bias.detach().float()
        self.weight_scales = compute_weight_scales(weight, in_pairs=saturates())
        rounded = round_weight(weight, self.weight_scales)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.weight_zero_points = torch.zeros(len(rounded), dtype=torch.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the weight in plain order, since a packed one cannot be pickled."""
        return {**self.__dict__, "weight": self.weight.to_dense().t().contiguous()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pack the weight again; one from a processor with VNNI is rounded anew if needed here."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        rounded = self.weight
        if saturates():
            rounded, self.weight_scales = fit_pairs(rounded, self.weight_scales)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        if x.requires_grad:  # there are no gradients of rounded numbers
            x = x.detach()
        rounded, scales = quantize_rows(
            x, self.input_zero_point, self.lowest_input, out=x if self.overwrites_input else None
        )
        product = torch.ops.onednn.qlinear_pointwise.default(
            rounded,
            1.0,  # scale of the input: none here, as each row has its own, see the last line
            self.input_zero_point,
            self.weight,
            self.weight_scales,
            self.weight_zero_points,  # all 0, as weights are symmetric
            None,  # no bias: it is added after the product was multiplied by the rows' scales
            1.0,  # scale and zero point of the output: they matter only for an output in int8
            0,
            torch.float32,
            "none",  # no operation after the product
            [],
            "",
        )
        # One pass over memory: product = bias + product * scales.
        return torch.addcmul(self.bias, product, scales, out=product).to(self.out_dtype)


def quantize_rows(
    x: Tensor, zero_point: int, lowest: float | None = None, *, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Quantize fp32 `x` `[rows, columns]` to uint8, with fp32 scales `[rows, 1]`.

    For the quantized `q`, `(q - zero_point) * scale` differs from `x` by at most half a scale; 0 is
    exact. In a row of numbers so near 0 that 1 / scale is infinite, it differs by at most 1e-36. If
    a row has a number that is NaN or infinite, so is its scale.

    Args:
        lowest: a number that nothing in `x` is below, if such a bound is known. Scales then fit it,
            and no row is searched for its minimum.
        out: memory for what is computed on the way, fp32 [rows, columns]; it may be `x` itself.
    """
    constants = constants_of(zero_point, x.shape[1], lowest)
    scales = x.amax(1, keepdim=True).mul_(constants.above)
    scale_of_lowest = constants.scale_of_lowest
    if scale_of_lowest is None:
        # torch's aminmax takes ten times as long as amin and amax.
        scale_of_lowest = x.amin(1, keepdim=True).mul_(constants.below)
    scales = torch.maximum(scales, scale_of_lowest)
    # A row of zeros has the scale 0. The reciprocal of 0 is infinite, and the row's bytes mean
    # nothing; times the scale 0 they are 0, as they should be.
    shifted = torch.addcmul(constants.shift, x, scales.reciprocal(), out=out)
    return shifted.view(torch.int32).to(torch.uint8), scales


class QuantizationConstants(NamedTuple):
    """Constants of `quantize_rows` as fp32 tensors; scalars, unless a shape is given.

    Torch converts a Python number at each call, which takes longer than an operation on a few rows.
    """

    above: Tensor
    """1 / (largest byte - zero point): makes a row's maximum a scale."""
    below: Tensor
    """-1 / zero point: makes a row's minimum a scale."""
    shift: Tensor
    """`MAGIC` plus the zero point, once for each column, [columns]. `torch.addcmul` is slow if two
    of its three tensors repeat one number in a row. The reciprocals of the scales do, so this
    tensor must not."""
    scale_of_lowest: Tensor | None
    """The scale with which the lowest number becomes the byte 0; None if that number is unknown."""


@lru_cache
def constants_of(zero_point: int, columns: int, lowest: float | None) -> QuantizationConstants:
    """Return the constants of `quantize_rows`, made once in a process."""
    with torch.inference_mode(False):
        return QuantizationConstants(
            torch.tensor(1 / (255 - zero_point)),
            torch.tensor(-1 / zero_point),
            torch.full((columns,), MAGIC + zero_point),
            None if lowest is None else torch.tensor(-lowest / zero_point),
        )


def compute_weight_scales(weight: Tensor, *, in_pairs: bool) -> Tensor:
    """Compute the scale of each output's weights, fp32 `[out_features]`.

    Processors without VNNI add two products in 16 bits (vpmaddubsw). `in_pairs` keeps the sum of
    two neighbouring weights of one sign within 128 scales, since 255 times 128 fits into 16 bits.
    Scales are then a quarter larger (all-MiniLM-L6-v2); weights of 7 bits would double them.
    """
    largest = largest_pair_sums(weight) if in_pairs else weight.abs().amax(1)
    # Two weights of 63.5 scales are rounded to 64 each, so a sum of 127 becomes 128 at most.
    return largest.clamp_min(torch.finfo(torch.float32).tiny) / 127


def largest_pair_sums(weight: Tensor) -> Tensor:
    """Compute the largest sum of two neighbouring weights of one sign in each row, `[rows]`.

    `weight` is `[rows, columns]`. Sums of negative weights count by their absolute value.
    """
    pairs = F.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2)
    above, below = pairs.clamp_min(0).sum(2), pairs.clamp_max(0).sum(2)
    return torch.maximum(above, -below).amax(1)


def round_weight(weight: Tensor, scales: Tensor) -> Tensor:
    """Round a weight `[rows, columns]` to int8 multiples of the `scales` of its rows."""
    return (weight / scales[:, None]).round().to(torch.int8)


def fit_pairs(rounded: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Return an int8 weight and its scales such that no sum of two products overflows 16 bits.

    Rows that fit already (`compute_weight_scales`) are unchanged. Others, which were rounded for
    processors with VNNI, get a larger scale and are rounded again.
    """
    is_too_large = largest_pair_sums(rounded.float()) > 128
    weight = rounded * scales[:, None]
    scales = torch.where(is_too_large, compute_weight_scales(weight, in_pairs=True), scales)
    return round_weight(weight, scales), scales


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


def quantize(model: BertModel, attention_dtype: torch.dtype) -> None:
    """Replace the encoder's linear layers by int8 ones and set the dtype of attention.

    Scores and weighted means are computed in `attention_dtype`; everything else stays fp32.
    """

    def replace(module: nn.Module, name: str, linear: nn.Linear) -> Int8Linear:
        activation: Activation | None = None
        # Not for a GatedFeedForward: its gates give outputs of both signs.
        if isinstance(module, FeedForward) and linear is module.down:
            activation = module.activation
        out_dtype = attention_dtype if name == "qkv" else torch.float32
        return Int8Linear(linear, out_dtype, activation)

    replace_linears(model, replace)
    # Activation functions overwrite their input, and the linear layer after them (`Int8Linear`)
    # overwrites their output. Both together save a twentieth of the time of 1,536 tokens (linear
    # layers of all-MiniLM-L6-v2's size, AMD Zen 5).
    for module in model.layers.modules():
        if isinstance(module, FeedForward):
            module.activation = IN_PLACE.get(module.activation, module.activation)
