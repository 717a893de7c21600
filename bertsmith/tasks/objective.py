"""What the training loop asks of whatever is to be learnt: batches in, loss terms out.

The loop knows this protocol and no task; a task or a pre-training objective knows its data and
its heads and nothing of optimizers, checkpoints or displays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel

TERM_NAMES = {
    "mlm": "masked words",
    "nsp": "next sentence",
    "yardstick": "masked words in common rows",
    "sop": "sentence order",
    "rtd": "replaced tokens",
    "classify": "classes",
    "tag": "labels",
    "soft": "as teacher",
    "hidden": "its vectors",
}
"""What loss terms are called where people read them; others keep their own name."""


@dataclass
class LossTerm:
    """One term of a loss: fp32 scalars `sum` and `correct` over `count` predictions.

    It counts `weight` times, in what is learnt and in the loss of a whole step.
    """

    sum: Tensor
    correct: Tensor
    count: int
    weight: float = 1.0
    """How much the term counts where terms are added; the same in all batches of a run."""

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """What has to be fetched from the device."""
        return self.sum, self.correct


class Objective(Protocol):
    """Something to learn, bound to its data.

    The loss of a step is, for every term, the sum over all micro-batches divided by the count
    over all of them, and the terms added by their weights: how a step is split changes nothing.
    """

    def micro_batches(self, step: int) -> Sequence[Batch]:
        """The batches of a step, counted from 1, on the CPU: a function of (data, seed, step)."""
        ...

    def counts(self, batch: Batch) -> dict[str, int]:
        """Predictions of each loss term, known before the forward pass."""
        ...

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """The loss terms of one batch, on the model's device."""
        ...

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """Held-out figures by their names in the journal; none where nothing is held out."""
        ...

    def describe(self, step: int) -> str:
        """Where the rows of a step come from, for a message about a step that went wrong."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """What must be the same for a run to be continued: data and settings, as plain JSON."""
        ...
