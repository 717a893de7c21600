"""The protocol of training objectives, which make batches and compute loss terms.

A *loss term* is one part of the training loss, such as that of masked LM or of next sentence
prediction. The training loop knows only this protocol, not tasks. An objective knows its data and
heads, but nothing of optimizers, checkpoints or displays. A step (one update of the weights)
consists of micro-batches. A micro-batch has some rows that are computed at once; the gradients of
all micro-batches are summed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from bertsmith.model.pretraining_catalog import OBJECTIVES, PAIR_TASKS
from bertsmith.model.trainable import TrainableModel

TITLES_OF_OTHERS = {
    "lm": "next token",
    "forward": "next token",
    "backward": "previous token",
    "write": "target tokens",
    "span": "missing spans",
    "common_eval": "masked LM on common rows",
    "classify": "classification",
    "tag": "token labels",
    "regress": "regression",
    "answer": "answer span",
    "choose": "multiple choice",
    "embed": "sentence vectors",
    "soft": "distillation",
    "hidden": "hidden states",
}
"""Display names of the loss terms that `OBJECTIVES` and `PAIR_TASKS`, the catalog of pre-training,
do not have."""
WITHOUT_ACCURACY = ("regress", "embed", "hidden")
"""Terms whose accuracy is not displayed: they predict numbers or vectors, not classes."""


def titles_of_terms() -> dict[str, str]:
    """Collect the display names of loss terms, those of the user's modules included.

    If two objectives or pair tasks (such as next sentence prediction) have the same term, the name
    is that of the first one.
    """
    titles: dict[str, str] = {}
    for entry in (*OBJECTIVES.values(), *PAIR_TASKS.values()):
        titles.setdefault(entry.term, entry.title)
    return titles | TITLES_OF_OTHERS


def title_of_term(term: str) -> str:
    """Return the display name of a loss term; a term without one is displayed as it is.

    >>> title_of_term("mlm"), title_of_term("my_loss")
    ('masked LM', 'my_loss')
    """
    return titles_of_terms().get(term, term)


def chances_of_terms() -> dict[str, float]:
    """Collect the accuracy of guessing, by loss term, where it is the same for every batch.

    Only pair tasks, such as next sentence prediction, have one. If two of them have the same term,
    the accuracy is that of the first task.
    """
    chances: dict[str, float] = {}
    for task in PAIR_TASKS.values():
        if task.chance is not None:
            chances.setdefault(task.term, task.chance)
    return chances


def list_terms(names: Iterable[str]) -> list[str]:
    """List the loss terms of training among the keys of journal entries, each once.

    Loss terms of evals, whose keys begin with "held_out_", are not listed.

    >>> list_terms(["step", "loss", "mlm_loss", "nsp_loss", "held_out_mlm_loss"])
    ['mlm', 'nsp']
    """
    losses = (name for name in names if name.endswith("_loss") and not name.startswith("held_out_"))
    return list(dict.fromkeys(name.removesuffix("_loss") for name in losses))


@dataclass
class LossTerm:
    """One loss term of a batch, summed over its predictions."""

    sum: Tensor
    """Summed loss, an fp32 scalar with its graph; in nats if it is a cross entropy."""
    correct: Tensor
    """Number of right predictions, a scalar."""
    count: int
    """Number of predictions."""
    weight: float = 1.0
    """Factor of the term in the total loss; the same in all batches of a run."""


class TrainingBatch(Protocol):
    """A micro-batch: rows of tokens with their targets."""

    @property
    def num_tokens(self) -> int:
        """The number of real tokens."""
        ...

    def to(self, device: torch.device) -> Self: ...


ModelT = TypeVar("ModelT", bound=TrainableModel, contravariant=True)
BatchT = TypeVar("BatchT", bound=TrainingBatch)


class HeldOutData(Protocol[ModelT]):
    """The eval data of an objective, which can be pickled.

    Ranks (the machines or GPUs that train together) can divide it among them.
    """

    def evaluate_part(self, model: ModelT, part: int, num_parts: int) -> Any:
        """Evaluate part `part`, from 0, of `num_parts`; return a result that can be pickled.

        The model is in evaluation mode.
        """
        ...

    def combine(self, results: Sequence[Any]) -> dict[str, float]:
        """Compute eval metrics by journal name from the results of all parts, in their order.

        Without eval data there are none.
        """
        ...


class Objective(Protocol[ModelT, BatchT]):
    """A training objective, bound to its data; classes inherit from it.

    The loss of a step is the weighted sum of its terms. Each term is summed over all micro-batches,
    and divided by its number of predictions in all micro-batches. So the loss does not depend on
    how a step is divided. Micro-batches are functions of (data, seed, step), so any process can
    compute a step, and compute it again.
    """

    def num_micro_batches(self, step: int) -> int:
        """Return the number of micro-batches of a step, counted from 1; this must be fast."""
        ...

    def micro_batch(self, step: int, index: int) -> BatchT:
        """Return micro-batch `index`, from 0, of step `step`, from 1, on the CPU.

        It is a function of (data, seed, step, index).
        """
        ...

    def micro_batches(self, step: int) -> list[BatchT]:
        """Return all micro-batches of a step, counted from 1, on the CPU."""
        return [self.micro_batch(step, index) for index in range(self.num_micro_batches(step))]

    def counts(self, batch: BatchT) -> dict[str, int]:
        """Count the predictions of each loss term, before the forward pass."""
        ...

    def losses(self, model: ModelT, batch: BatchT) -> dict[str, LossTerm]:
        """Compute the loss terms of one batch, on the model's device."""
        ...

    @property
    def evaluation(self) -> HeldOutData[ModelT]:
        """The eval data."""
        ...

    def evaluate(self, model: ModelT) -> dict[str, float]:
        """Compute eval metrics by journal name; empty without eval data."""
        return self.evaluation.combine([self.evaluation.evaluate_part(model, 0, 1)])

    def describe(self, step: int) -> str:
        """Describe where a step's rows come from, for error messages."""
        ...

    def describe_change(self, step: int) -> str:
        """Describe what changes from this step on; empty for most steps."""
        return ""

    def identity(self) -> Mapping[str, Any]:
        """Return as plain JSON the facts about the data that a resumed run must have again."""
        ...


Measure = Callable[[Any], Mapping[str, float]]
"""Function from a model in evaluation mode to metrics by journal name."""
