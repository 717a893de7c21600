"""The protocol of update rules: how a gradient changes weights.

A rule is one file in this folder; `update_rules` (training/optim.py) lists those of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from bertsmith.model.trainable import ParameterSpec


@dataclass(frozen=True)
class UpdateStep:
    """The numbers of one update; `step` counts from 1, `divisor` is an fp32 scalar."""

    step: int
    rate: float
    weight_decay: float
    divisor: Tensor
    """Divisor of the gradient, for clipping."""


class UpdateRule(Protocol):
    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of its tensors in a checkpoint; each is as large as the weights."""
        ...

    @property
    def granularity(self) -> Literal["chunk", "parameter"]:
        """Whether `step` gets flat pieces of any parameters, or one whole parameter."""
        ...

    def accepts(self, spec: ParameterSpec) -> bool: ...

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        """Update fp32 `weights` and `buffers` in place; `gradient` may be overwritten."""
        ...


def rule_for(spec: ParameterSpec, rules: Sequence[UpdateRule]) -> UpdateRule:
    return next(rule for rule in rules if rule.accepts(spec))
