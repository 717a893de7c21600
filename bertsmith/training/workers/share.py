"""A share of a step: the gradients of some micro-batches, and the update of one range of weights.

Usually each worker process computes one share of every step. A step's micro-batches are dealt to
its shares in turn, as cards are, and the gradients of each share are summed separately. So the
order of sums depends only on the number of shares: one process that computes several shares gets
the same weights as several processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
from bertsmith.training.workers.protocol import BatchSize, Figures, TermFigures


@dataclass(frozen=True)
class Plan:
    """The division of a run's steps into shares, as one rank (a machine, or a GPU) sees it.

    Micro-batches are dealt first to the first share of each rank, then to the second of each, so
    that all ranks are busy even if there are few micro-batches. Ranges of the weights go to all
    shares of the first rank, then to those of the second, so that each rank's ranges are
    neighbours.
    """

    objective: Objective[Any, Any]
    optim: OptimSettings
    seed: int
    num_shares: int
    """Number of shares of each rank."""
    rank: int = 0
    """The rank that sees the plan, from 0 to `num_ranks` - 1."""
    num_ranks: int = 1
    """Number of ranks that compute each step together."""
    is_exact: bool = False
    """Whether sums have the same order, and so the same bytes, for any number of ranks."""

    @property
    def all_shares(self) -> int:
        """The number of shares on all ranks."""
        return self.num_shares * self.num_ranks

    def first_micro_batch(self, index: int) -> int:
        """Return the number, from 0, of the first micro-batch of this rank's share `index`."""
        return self.rank + index * self.num_ranks

    def weight_range(self, index: int) -> int:
        """Return the number of the range of weights that this rank's share `index` updates.

        There are `all_shares` ranges, numbered from 0.
        """
        return self.rank * self.num_shares + index


def indices_by_process(num_shares: int, num_processes: int) -> list[range]:
    """Return the indices of the shares of each worker process, which are neighbours.

    >>> indices_by_process(12, 5)
    [range(0, 2), range(2, 4), range(4, 7), range(7, 9), range(9, 12)]
    """
    bounds = [num_shares * process // num_processes for process in range(num_processes + 1)]
    return [range(first, end) for first, end in pairwise(bounds)]


class Share:
    """Share `index`, from 0, of the `plan.num_shares` of its rank, in every step of a run.

    Call `prepare`, `compute`, `sum_gradients` and `update` for each step. On several ranks, also
    call `sum_shares` and then `keep_sum` before `sum_gradients`; between these two calls, the ranks
    exchange their gradients. If `is_prefetching`, another thread makes the micro-batches of the
    next steps, so steps must be computed one after another.

    Args:
        model: its parameters are views of `arrays.compute_weights`.
        arrays: all weights, all gradients and the optimizer's moments, each in one flat array.
        layout: the position of each parameter in these arrays.
        collector: moves the model's gradients into the array; all shares that a process computes
            use it in turn.
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
        self._updater = RangeUpdater(
            arrays, layout, plan.weight_range(index), plan.all_shares, plan.optim
        )
        first, end = layout.divide(plan.num_shares)[index]
        self._summed = slice(first, end)
        """The range of weights whose gradients `sum_shares` sums over the shares of this rank."""
        self._prefetcher: Prefetcher[_PreparedStep] | None = None
        self._prepared = _PreparedStep(0, [], [])

    def prepare(self, step: int) -> list[BatchSize]:
        """Make the micro-batches of this share of a step, and return their sizes."""
        if self.is_prefetching:
            if self._prefetcher is None:
                self._prefetcher = Prefetcher(self._make, step)
            self._prepared = next(self._prefetcher)
        else:
            self._prepared = self._make(step)
        return self._prepared.sizes

    def compute(self, step: int, counts: Mapping[str, int]) -> list[dict[str, LossTerm]]:
        """Compute gradients and loss terms of the micro-batches that `prepare` made.

        The gradients are those of the loss of the whole step, so `counts` are the predictions of
        all its micro-batches by loss term.
        """
        prepared = self._prepared
        plan = self.plan
        if plan.num_ranks > 1 or plan.is_exact:
            # Sums over ranks are in fp32; with --exact one rank must give the same bytes.
            self._gradients = self._arrays.gradients
        else:
            self._gradients = self._arrays.gradients_of(prepared.num_micro_batches)
        self._collector.begin(self._gradients[self.index])
        objective = plan.objective
        device = self._gradients.device
        all_terms = []
        for number, batch in enumerate(prepared.batches):
            micro_batch = plan.first_micro_batch(self.index) + number * plan.all_shares
            # On a CPU, `step_key` seeds the dropout of each sequence of the micro-batch. `seed` is
            # for tensors whose rows belong to no sequence, and for a GPU (model/dropout.py).
            seed = micro_batch_seed(plan.seed, step, micro_batch)
            with dropout_seed(seed, device, step_key=(plan.seed, step)):
                terms = objective.losses(self.model, batch.to(device))
            losses = [term.weight * (term.sum / counts[name]) for name, term in terms.items()]
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            # Detached, so that the micro-batch's activations are freed now.
            all_terms.append(
                {name: replace(term, sum=term.sum.detach()) for name, term in terms.items()}
            )
        self._collector.end()
        return all_terms

    def close(self) -> None:
        """End the thread that makes micro-batches ahead, if there is one."""
        if self._prefetcher is not None:
            self._prefetcher.close()

    def _make(self, step: int) -> "_PreparedStep":
        objective = self.plan.objective
        num_micro_batches = objective.num_micro_batches(step)
        first = self.plan.first_micro_batch(self.index)
        indices = range(first, num_micro_batches, self.plan.all_shares)
        batches = [objective.micro_batch(step, index) for index in indices]
        sizes = [BatchSize(batch.num_tokens, objective.counts(batch)) for batch in batches]
        return _PreparedStep(num_micro_batches, batches, sizes)

    def sum_shares(self) -> None:
        """Sum the gradients of this rank's shares into the first row, for one range of weights.

        Each share of a rank sums another range, so that together they sum the gradients of all
        weights before ranks exchange them.
        """
        total = self._gradients[0, self._summed]
        for gradient in self._gradients[1:]:
            total += gradient[self._summed]

    def keep_sum(self) -> None:
        """Use only the first row for updates, since it now has the sum over all ranks."""
        self._gradients = self._gradients[:1]

    def sum_gradients(self) -> Tensor:
        """Sum the gradients of all shares in this share's range of the weights.

        Returns the sum of squares of each chunk (4,096 numbers) of the range, fp32 `[chunks]`.
        """
        return self._updater.sum_gradients(self._gradients)

    def update(self, step: int, rate: float, divisor: float) -> None:
        """Update the weights of this share's range; see `RangeUpdater.update`."""
        self._updater.update(self._gradients, step, rate, divisor)


@dataclass(frozen=True)
class _PreparedStep:
    """The micro-batches of one share in a step, with their sizes."""

    num_micro_batches: int
    """Number of micro-batches of the whole step."""
    batches: Sequence[Any]
    sizes: list[BatchSize]


def to_figures(terms: Sequence[Mapping[str, LossTerm]]) -> list[Figures]:
    """Convert the loss terms of micro-batches to numbers.

    All are read from the device at once, since each read waits for the GPU.
    """
    flat_terms = [term for batch_terms in terms for term in batch_terms.values()]
    if not flat_terms:
        return [{} for _ in terms]
    scalars = [scalar.float() for term in flat_terms for scalar in (term.sum, term.correct)]
    numbers = iter(torch.stack(scalars).tolist())
    all_figures = []
    for batch_terms in terms:
        figures = {}
        for name, term in batch_terms.items():
            loss_sum, num_correct = next(numbers), next(numbers)
            figures[name] = TermFigures(loss_sum, num_correct, term.weight)
        all_figures.append(figures)
    return all_figures


def micro_batch_seed(seed: int, step: int, micro_batch: int) -> int:
    """Derive an independent dropout seed for one micro-batch."""
    return int(np.random.SeedSequence([seed, step, micro_batch]).generate_state(1, np.uint64)[0])
