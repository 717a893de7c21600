"""Protocol of the workers that compute a run's steps: this process, several, or several machines.

Methods return results of the whole step, from all processes and machines. A step consists of
micro-batches, each computed in one forward pass. A loss term is one part of the training loss, such
as that of masked LM. A rank is one of the machines or GPUs that train together.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from bertsmith.model.trainable import TrainableModel


@dataclass(frozen=True)
class BatchSize:
    """The size of a micro-batch: its real tokens, and its predictions by loss term."""

    num_tokens: int
    predictions: Mapping[str, int]


class TermFigures(NamedTuple):
    """Results of a loss term for a micro-batch, as numbers; see `LossTerm`."""

    loss_sum: float
    num_correct: float
    weight: float


Figures = dict[str, TermFigures]
"""Results of a micro-batch by loss term."""


class Workers(AbstractContextManager["Workers"], Protocol):
    """A context in which steps are computed, one after another.

    A step is `prepare`, `compute`, `reduce_gradients`, `update`.
    """

    def prepare(self, step: int) -> Sequence[BatchSize]:
        """Make the micro-batches of a step, counted from 1, and return their sizes in order."""
        ...

    def compute(self, step: int, counts: Mapping[str, int]) -> Sequence[Figures]:
        """Compute gradients and return the losses of each micro-batch, in order.

        `counts` are the step's numbers of predictions by loss term; see `total_counts`.
        """
        ...

    def reduce_gradients(self) -> float:
        """Sum the gradients of all micro-batches and return the norm (L2) of their sum."""
        ...

    def step_timing(self, step_seconds: float) -> Mapping[str, float]:
        """Return journal entries on how ranks spent the last step, which took `step_seconds`.

        They are empty on one rank. `exchange_fraction`, 0 to 1, is the share of the step in which
        gradients and weights were exchanged; `slowest_rank` took `slowest_rank_factor` times as
        long to compute as the average of all ranks.
        """
        ...

    def update(self, step: int, rate: float, divisor: float) -> None:
        """Update the weights by the summed gradients divided by `divisor`.

        `step` counts from 1; `rate` is the learning rate of the step.
        """
        ...

    def evaluating(self) -> AbstractContextManager[TrainableModel]:
        """Yield the model in eval mode, within the block."""
        ...

    def evaluate(self) -> Sequence[Any]:
        """Evaluate the eval data; return its results for `HeldOutData.combine`.

        There is a result for each part of the data, in order: each rank evaluates one part, or one
        rank all of it.
        """
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the optimizer's state, named `<buffer>/<parameter>`.

        The tensors are fp32, in the shapes of the parameters.
        """
        ...

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned; other tensors among it are ignored.

        The tensors are fp32, in the shapes of the parameters.
        """
        ...


def total_counts(sizes: Iterable[BatchSize]) -> dict[str, int]:
    """Count the predictions of each loss term in a step.

    A count is at least 1, since losses are divided by it.
    """
    counts: dict[str, int] = {}
    for size in sizes:
        for name, count in size.predictions.items():
            counts[name] = counts.get(name, 0) + count
    return {name: max(1, count) for name, count in counts.items()}


def step_figures(counts: Mapping[str, int], figures: Sequence[Figures]) -> dict[str, float]:
    """Compute the loss of a step with its terms and accuracies, by journal name.

    A term's loss is its sum over all micro-batches, divided by its count. "loss" is the sum of all
    terms' losses, each times its weight.

    Args:
        counts: the step's numbers of predictions by loss term.
        figures: the results of each micro-batch.
    """
    sums = {name: sum(terms[name].loss_sum for terms in figures) for name in counts}
    correct = {name: sum(terms[name].num_correct for terms in figures) for name in counts}
    weights = {name: term.weight for terms in figures for name, term in terms.items()}
    losses = {name: sums[name] / count for name, count in counts.items()}
    return {
        "loss": sum(weights[name] * loss for name, loss in losses.items()),
        **{f"{name}_loss": loss for name, loss in losses.items()},
        **{f"{name}_accuracy": correct[name] / count for name, count in counts.items()},
    }
