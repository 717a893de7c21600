"""The protocol of whoever computes a run's steps: this process, several, or several machines."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from bertsmith.model.trainable import TrainableModel
from bertsmith.training.workers.member import BatchSize, Figures


class Workers(AbstractContextManager["Workers"], Protocol):
    """A context within which steps are computed, one after another.

    A step is `prepare`, `compute`, `reduce_gradients`, `update`. What they return is about the
    whole step, in all processes.
    """

    def prepare(self, step: int) -> Sequence[BatchSize]:
        """Make the micro-batches of a step, counted from 1, and return their sizes in order."""
        ...

    def compute(self, step: int, counts: Mapping[str, int]) -> Sequence[Figures]:
        """Compute gradients and return the losses of each micro-batch.

        `counts` are the step's predictions by loss term.
        """
        ...

    def reduce_gradients(self) -> float:
        """Sum the gradients of all micro-batches and return the norm of their sum."""
        ...

    def update(self, step: int, rate: float, divisor: float) -> None:
        """Update the weights by the summed gradients divided by `divisor`."""
        ...

    def evaluating(self) -> AbstractContextManager[TrainableModel]:
        """Give the model that computes, without dropout, within the block."""
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the optimizer's state, named `<buffer>/<parameter>`."""
        ...

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned."""
        ...
