"""Muon (Jordan 2024), an update rule for the matrices inside layers: orthogonalized momentum.

Updates are scaled to the size of AdamW's, so that one learning rate and one weight decay serve both
(Liu et al. 2025, arXiv 2502.16982, equation 4).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from bertsmith.model.trainable import ParameterSpec
from bertsmith.training.update_rules.rule import UpdateStep

MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients a, b, c of the polynomial a·s + b·s³ + c·s⁵, which each step applies to the singular
values s (Jordan 2024). They make it steep at zero, so that few steps are needed. Singular values
above about 0.005 of the matrix's Frobenius norm become 0.7 to 1.2, not 1."""
UPDATE_SIZE = 0.2
"""Root mean square of AdamW's updates, as measured by Liu et al. 2025 (section 2.2)."""


@dataclass(frozen=True)
class Muon:
    """Muon for the matrices inside layers whose parameter's name ends in `suffix`.

    Such a parameter is `num_stacked` matrices one below the other (three for query, key and value).
    Each matrix is orthogonalized by itself, so `step` is called with whole parameters. Momentum is
    Nesterov's; the update is orthogonalized (Jordan 2024) and as large as AdamW's (Liu et al. 2025,
    arXiv 2502.16982, equation 4).
    """

    suffix: str = ".weight"
    num_stacked: int = 1
    # A buffer that AdamW has, too. Each buffer has numbers for all weights, whatever their rule, so
    # Muon needs no further memory.
    buffers: ClassVar[tuple[str, ...]] = ("exp_avg",)
    granularity: ClassVar[Literal["chunk", "parameter"]] = "parameter"

    def accepts(self, spec: ParameterSpec) -> bool:
        # An encoder–decoder has its layers in `encoder` and `decoder`, other models in `layers`.
        is_inside = re.search(r"(^|\.)(layers|encoder|decoder)\.\d+\.", spec.name) is not None
        return is_inside and spec.kind == "matrix" and spec.name.endswith(self.suffix)

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        """Update one parameter and its momentum in place; `gradient` is overwritten.

        All are fp32 `[rows, columns]`, in which the matrices of a stack are one below the other.
        """
        gradient.div_(change.divisor)
        momentum = buffers["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
        nesterov = gradient.lerp_(momentum, MOMENTUM)
        stack = nesterov.view(self.num_stacked, -1, weights.shape[1])
        # A number of an orthogonal matrix has the root mean square 1 / sqrt(longer side).
        scale = UPDATE_SIZE * math.sqrt(max(stack.shape[1:]))
        weights.mul_(1 - change.rate * change.weight_decay)
        weights.sub_(orthogonalize(stack).reshape_as(weights), alpha=change.rate * scale)


def orthogonalize(stack: Tensor) -> Tensor:
    """Bring the singular values of matrices `[n, rows, columns]` near 1 (Newton–Schulz)."""
    a, b, c = COEFFICIENTS
    is_high = stack.shape[1] > stack.shape[2]
    x = stack.mT if is_high else stack  # then `gram` has the size of the shorter side
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # b·gram + c·gram²
        x = torch.baddbmm(x, polynomial, x, beta=a)  # a·x + polynomial·x
    return x.mT if is_high else x
