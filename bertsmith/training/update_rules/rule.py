"""The protocol of update rules, such as AdamW and Muon: how a gradient changes weights.

A rule is one file in this folder; `update_rules` (training/optim.py) lists the rules of a run. All
weights of a run are in one flat array, which is divided into chunks of 4,096 numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from bertsmith.model.trainable import ParameterSpec


@dataclass(frozen=True)
class UpdateStep:
    """The numbers of one update of a parameter."""

    step: int
    """Number of the step, from 1."""
    rate: float
    """Learning rate of the parameter."""
    weight_decay: float
    """Weight decay: times the rate, it is the share by which weights shrink."""
    divisor: Tensor
    """Divisor of the gradient, for clipping; an fp32 scalar."""


class UpdateRule(Protocol):
    """A rule by which a gradient changes weights."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of its tensors in a checkpoint; each is as large as the weights."""
        ...

    @property
    def granularity(self) -> Literal["chunk", "parameter"]:
        """The range that a call of `step` updates.

        "chunk" is a range of the flat array, with any parameters; "parameter" is one parameter in
        its own shape.
        """
        ...

    def accepts(self, spec: ParameterSpec) -> bool:
        """Return whether the rule can update a parameter."""
        ...

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        """Update `weights` and `buffers` in place, by `gradient` divided by `change.divisor`.

        All are fp32 and have one shape: `[count]` for some chunks, or that of the parameter (see
        `granularity`). `gradient` may be overwritten.
        """
        ...


def rule_for(spec: ParameterSpec, rules: Sequence[UpdateRule]) -> UpdateRule:
    """Return the first of the rules that accepts a parameter."""
    return next(rule for rule in rules if rule.accepts(spec))
