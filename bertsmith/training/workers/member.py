"""One process's share of a step: some gradients, some updates.

A step's micro-batches are dealt out in turn, and every member sums its gradients separately. The
order of sums depends on the number of members alone: a process that does the work of several
reaches the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.dropout import dropout_seed
from bertsmith.training.flat_parameters import Arrays, GradientCollector, Layout
from bertsmith.training.objective import LossTerm, Objective
from bertsmith.training.optim import OptimSettings, RangeUpdater


@dataclass(frozen=True)
class Plan:
    """The settings that all members of a run share."""

    objective: Objective
    optim: OptimSettings
    seed: int
    num_members: int


class Member:
    """Member `index` of `plan.num_members`.

    Args:
        model: computes on `arrays.computing`, of which its parameters are views.
        collector: of this model; several members may share it.
    """

    def __init__(
        self,
        index: int,
        plan: Plan,
        model: BertModel,
        arrays: Arrays,
        layout: Layout,
        collector: GradientCollector,
    ) -> None:
        self.index = index
        self.plan = plan
        self.model = model
        self._arrays = arrays
        self._gradients = arrays.gradients
        self._collector = collector
        bounds = layout.divide(plan.num_members)[index]
        self._updater = RangeUpdater(arrays, layout, bounds, plan.optim)

    def compute(self, step: int, batches: Sequence[Batch]) -> list[dict[str, LossTerm]]:
        """Compute gradients and loss terms of this member's micro-batches of a step."""
        counts = total_counts(self.plan.objective, batches)
        self._gradients = self._arrays.gradients_of(len(batches))
        self._collector.begin(self._gradients[self.index])
        found = [
            self._backward(batches[place], step_seed(self.plan.seed, step, place), counts)
            for place in range(self.index, len(batches), self.plan.num_members)
        ]
        self._collector.end()
        return found

    def sum_gradients(self) -> Tensor:
        """Sum gradients in this range; return square sums of its chunks."""
        return self._updater.sum_gradients(self._gradients)

    def update(self, step: int, rate: float, divisor: float) -> None:
        self._updater.update(self._gradients, step, rate, divisor)

    def _backward(self, batch: Batch, seed: int, counts: Mapping[str, int]) -> dict[str, LossTerm]:
        device = self._gradients.device
        with dropout_seed(seed, device):
            terms = self.plan.objective.losses(self.model, batch.to(device))
        parts = [term.weight * (term.sum / counts[name]) for name, term in terms.items()]
        loss = torch.stack(parts).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return {name: replace(term, sum=term.sum.detach()) for name, term in terms.items()}


Figures = dict[str, tuple[float, float, float]]
"""Summed loss, number correct and weight of each loss term."""


def to_figures(terms: Sequence[Mapping[str, LossTerm]]) -> list[Figures]:
    """Convert terms to numbers in one read, since each awaits a GPU."""
    numbers = [x.float() for each in terms for term in each.values() for x in term.pair]
    pairs = iter(torch.stack(numbers).view(-1, 2).tolist() if numbers else [])
    return [{name: (*next(pairs), term.weight) for name, term in each.items()} for each in terms]


def total_counts(objective: Objective, batches: Sequence[Batch]) -> dict[str, int]:
    """Count predictions of each loss term in a step; at least 1.

    A term without predictions has a sum of 0.
    """
    counts: dict[str, int] = {}
    for batch in batches:
        for name, count in objective.counts(batch).items():
            counts[name] = counts.get(name, 0) + count
    return {name: max(1, count) for name, count in counts.items()}


def step_seed(seed: int, step: int, part: int = 0) -> int:
    """Derive an independent dropout seed for one micro-batch."""
    return int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint64)[0])
