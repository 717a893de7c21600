"""Rotary positions (RoPE; Su et al. 2021, "RoFormer"), which rotate queries and keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from bertsmith.model.shape_buckets import fill_up

Rotary = Callable[[Tensor], Tensor]
"""Rotates queries or keys [tokens, heads, head_size] of a packed row. On a CPU the row ends in
padding, which rounds its number of tokens (`fill_up`)."""


@dataclass(frozen=True)
class Rotation:
    """Rotation of numbers `i` and `i + size / 2` of a head by position times `theta^(-2i / size)`.

    `cos` and `sin` are fp32 [tokens, 1, size / 2], padded by `fill_up` as queries and keys are.
    """

    cos: Tensor
    sin: Tensor

    @classmethod
    def of(cls, position_ids: Tensor, theta: float, head_size: int) -> Self:
        """Compute the angles of `position_ids`, int64 [tokens], of heads of `head_size` numbers."""
        even_numbers = torch.arange(0, head_size, 2, device=position_ids.device).float()
        rates = theta ** -(even_numbers / head_size)  # angle from one position to the next
        angles = position_ids[:, None].float() * rates
        return cls(cos=fill_up(angles.cos())[:, None], sin=fill_up(angles.sin())[:, None])

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate [tokens, heads, size]; the arithmetic is in fp32."""
        return _Rotate.apply(x, self.cos, self.sin)  # type: ignore[no-untyped-call]


class _Rotate(torch.autograd.Function):
    """A rotation; its backward pass rotates the gradient back, which needs only the angles."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.angles = cos, sin
        return _rotate(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.angles
        return _rotate(gradient, cos, -sin), None, None


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)
