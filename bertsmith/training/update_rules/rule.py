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
    """The numbers of one update; `step` counts from 1, `divisor` is an fp32 scalar.

    `rate` is the learning rate of this parameter; `weight_decay` times the rate is the share by
    which weights shrink.
    """

    step: int
    rate: float
    weight_decay: float
    divisor: Tensor
    """Divisor of the gradient, for clipping."""


class UpdateRule(Protocol):
    """A rule by which a gradient changes weights."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of its tensors in a checkpoint; each is as large as the weights."""
        ...

    @property
    def granularity(self) -> Literal["chunk", "parameter"]:
        """Whether `step` gets flat pieces of any parameters, or one whole parameter."""
        ...

    def accepts(self, spec: ParameterSpec) -> bool:
        """Return whether the rule can update a parameter."""
        ...

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        """Update `weights` and `buffers` in place, by `gradient` divided by `change.divisor`.

        All are fp32 of one shape, `[count]` or that of the whole parameter by `granularity`;
        `gradient` may be overwritten.
        """
        ...


def rule_for(spec: ParameterSpec, rules: Sequence[UpdateRule]) -> UpdateRule:
    """Return the first of the rules that accepts a parameter."""
    return next(rule for rule in rules if rule.accepts(spec))
