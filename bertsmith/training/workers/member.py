"""One process's share of a step: some gradients, some updates.

A step's micro-batches are dealt out in turn, and every member sums its gradients separately. The
order of sums depends on the number of members alone: a process that does the work of several
reaches the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.model.dropout import dropout_seed
from bertsmith.model.trainable import TrainableModel
from bertsmith.training.flat_parameters import Arrays, GradientCollector, Layout
from bertsmith.training.objective import LossTerm, Objective
from bertsmith.training.optim import RangeUpdater
from bertsmith.training.prefetch import Prefetcher
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.protocol import BatchSize, Figures


@dataclass(frozen=True)
class Plan:
    """The settings that all members of a run share."""

    objective: Objective[Any, Any]
    optim: OptimSettings
    seed: int
    num_members: int


class Member:
    """Member `index` of `plan.num_members`.

    Steps must follow one another if the member `is_prefetching`.

    Args:
        model: computes on `arrays.computing`, of which its parameters are views.
        collector: of this model; several members may share it.
    """

    def __init__(
        self,
        index: int,
        plan: Plan,
        model: TrainableModel,
        arrays: Arrays,
        layout: Layout,
        collector: GradientCollector,
    ) -> None:
        self.index = index
        self.plan = plan
        self.model = model
        self.is_prefetching = False
        self._arrays = arrays
        self._gradients = arrays.gradients
        self._collector = collector
        self._updater = RangeUpdater(arrays, layout, index, plan.num_members, plan.optim)
        self._prefetcher: Prefetcher[_Share] | None = None
        self._share = _Share(0, [], [])

    def prepare(self, step: int) -> list[BatchSize]:
        """Make this member's micro-batches of a step, and return their sizes."""
        if self.is_prefetching:
            if self._prefetcher is None:
                self._prefetcher = Prefetcher(self._make, step)
            self._share = next(self._prefetcher)
        else:
            self._share = self._make(step)
        return self._share.sizes

    def compute(self, step: int, counts: Mapping[str, int]) -> list[dict[str, LossTerm]]:
        """Compute gradients and loss terms of the micro-batches that `prepare` made.

        Gradients are those of the whole step's loss: `counts` are the predictions of all its
        micro-batches by loss term.
        """
        share = self._share
        num_members = self.plan.num_members
        self._gradients = self._arrays.gradients_of(share.num_micro_batches)
        self._collector.begin(self._gradients[self.index])
        objective = self.plan.objective
        device = self._gradients.device
        all_terms = []
        for number, batch in enumerate(share.batches):
            seed = step_seed(self.plan.seed, step, self.index + number * num_members)
            with dropout_seed(seed, device, step_key=(self.plan.seed, step)):
                terms = objective.losses(self.model, batch.to(device))
            parts = [term.weight * (term.sum / counts[name]) for name, term in terms.items()]
            torch.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
            all_terms.append({n: replace(term, sum=term.sum.detach()) for n, term in terms.items()})
        self._collector.end()
        return all_terms

    def close(self) -> None:
        if self._prefetcher is not None:
            self._prefetcher.close()

    def _make(self, step: int) -> "_Share":
        objective = self.plan.objective
        number = objective.num_micro_batches(step)
        mine = range(self.index, number, self.plan.num_members)
        batches = [objective.micro_batch(step, index) for index in mine]
        sizes = [BatchSize(batch.num_tokens, objective.counts(batch)) for batch in batches]
        return _Share(number, batches, sizes)

    def sum_gradients(self) -> Tensor:
        """Sum gradients in this range; return the square sums of its chunks, fp32 `[chunks]`."""
        return self._updater.sum_gradients(self._gradients)

    def update(self, step: int, rate: float, divisor: float) -> None:
        """Update the weights of this range, as `RangeUpdater.update` does."""
        self._updater.update(self._gradients, step, rate, divisor)


@dataclass(frozen=True)
class _Share:
    """One member's micro-batches of a step of `num_micro_batches`."""

    num_micro_batches: int
    batches: Sequence[Any]
    sizes: list[BatchSize]


def to_figures(terms: Sequence[Mapping[str, LossTerm]]) -> list[Figures]:
    """Convert terms to numbers in one read, since each awaits a GPU."""
    flat_terms = [term for batch_terms in terms for term in batch_terms.values()]
    numbers = [x.float() for term in flat_terms for x in (term.sum, term.correct)]
    pairs = iter(torch.stack(numbers).view(-1, 2).tolist() if numbers else [])
    return [
        {name: (*next(pairs), term.weight) for name, term in batch_terms.items()}
        for batch_terms in terms
    ]


def step_seed(seed: int, step: int, part: int) -> int:
    """Derive an independent dropout seed for one micro-batch."""
    return int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint64)[0])
