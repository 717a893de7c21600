"""Linear layers in whole numbers of 8 bits: weights rounded once, what they multiply at each call.

A weight has a step of its own for each output (symmetric, -127 to 127); what enters a layer has
one for the call, from its least to its greatest value (0 to 255). The product is exact, and comes
back as fp32 or bf16. So a text's vector depends a little on which texts share its batch.
Products take half as long as in bf16 where the processor has VNNI (one thread of a Zen 4).
"""

import torch
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
        self.scales = weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.zero_points = torch.zeros(len(rounded), dtype=torch.int32)

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
