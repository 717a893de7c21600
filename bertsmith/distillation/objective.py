"""The objective of fine-tuning with a teacher: what the training loop asks for batches and losses.

The loss has three terms. The first is the task's own loss on the labels, the second that on the
teacher's outputs as soft targets (Hinton et al. 2015). The third is the distance (1 - cosine) of
the last-layer vectors of student and teacher (Sanh et al. 2019, section 2).
`Task.distillation_loss` compares the outputs of two models; the rest is the same for all tasks.

For texts without labels the loss has only the two terms that use the teacher. Texts without labels
are in micro-batches of their own. A step has texts with and without labels in proportion to their
numbers, so that each text is seen equally often.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.distillation.teacher import Teacher
from bertsmith.model.bert import BertModel
from bertsmith.model.last_layer import watch_last_layer
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, TrainingExamples
from bertsmith.tasks.soft_targets import soft_vector_loss
from bertsmith.tasks.task import Task
from bertsmith.training.objective import HeldOutData, LossTerm, Objective

UNLABELLED = "unlabelled"
"""Name of the target that marks batches without labels."""

MAX_COSINE_DISTANCE = 0.1
"""Largest 1 - cosine of student and teacher vectors at which they agree. It decides only what
counts as correct; the loss has no such limit."""


@dataclass(frozen=True)
class DistillationWeights:
    """Weights of the distillation loss, and the temperature.

    The task's own loss has the weight 1 - `soft_weight`, the loss on soft targets has `soft_weight`
    and `soft_temperature`, and the loss on last-layer vectors has `hidden_weight`. At a
    `hidden_weight` of 0 these vectors are not computed.
    """

    soft_weight: float
    soft_temperature: float
    hidden_weight: float


class Distillation(Objective[BertModel, Batch]):
    """The objective of a task with a teacher (Hinton et al. 2015, section 2).

    It has the methods and properties of `FineTuning`, the objective without a teacher, so a run of
    fine-tuning trains with either (`ExampleObjective`).

    Args:
        labelled: the task over its labelled examples, with the eval examples.
        teacher: the source of the teacher's outputs.
        weights: weight of each term of the loss.
        unlabelled: the same task over texts without labels; None if there are none.
        facts: entries of `identity` that identify the teacher; a resumed run must have equal ones.
    """

    def __init__(
        self,
        labelled: FineTuning,
        teacher: Teacher,
        weights: DistillationWeights,
        *,
        unlabelled: FineTuning | None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.labelled = labelled
        self.unlabelled = unlabelled
        self.teacher = teacher
        self.weights = weights
        self.facts = dict(facts or {})

    @property
    def task(self) -> Task[Any, Any]:
        return self.labelled.task

    @property
    def train(self) -> TrainingExamples:
        return self.labelled.train

    @property
    def num_shares(self) -> int:
        """Number of shares of a step, which worker processes compute at the same time."""
        return max(dataset.num_shares for dataset in self._datasets)

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that see every example once, labelled or not."""
        return max(dataset.steps_per_epoch for dataset in self._datasets)

    @property
    def batch_size(self) -> int:
        return sum(dataset.batch_size for dataset in self._datasets)

    @property
    def _datasets(self) -> list[FineTuning]:
        if self.unlabelled is None:
            return [self.labelled]
        return [self.labelled, self.unlabelled]

    @property
    def held_out(self) -> HeldOutExamples:
        return self.labelled.held_out

    def narrow_vocabulary(self, model: BertModel) -> VocabularySubset:
        """Keep only the embeddings of tokens that the examples use, in model and teacher.

        The examples' token ids are renumbered.
        """
        ids = [ids for dataset in self._datasets for ids in dataset.token_ids]
        used = VocabularySubset.of(model, ids)
        for dataset in self._datasets:
            dataset.renumber(used.new_ids)
        used.shrink(model)
        self.teacher.narrow_vocabulary(used)
        return used

    def num_micro_batches(self, step: int) -> int:
        return sum(dataset.num_micro_batches(step) for dataset in self._datasets)

    def micro_batch(self, step: int, index: int) -> Batch:
        """Return micro-batch `index`, from 0, of step `step`, from 1; labelled ones are first."""
        num_labelled = self.labelled.num_micro_batches(step)
        if self.unlabelled is None or index < num_labelled:
            batch = self.labelled.micro_batch(step, index)
        else:
            unlabelled = self.unlabelled.micro_batch(step, index - num_labelled)
            # Rows without labels are numbered after the labelled rows of the step, so that they do
            # not have the same dropout.
            first = self.labelled.num_rows(step)
            step_indices = tuple(first + number for number in unlabelled.step_indices)
            batch = _without_labels(replace(unlabelled, step_indices=step_indices))
        return self.teacher.prepare(batch)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the predictions of each term of the loss; sums are divided by these counts."""
        task = self.task
        has_labels = UNLABELLED not in batch.targets
        counts = {
            task.name: task.num_predictions(batch) if has_labels else 0,
            "soft": task.num_predictions(batch, distilled=True),
        }
        if self.weights.hidden_weight:
            counts["hidden"] = batch.num_tokens
        return counts

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute the task's own term, `soft` and, if it is weighted, `hidden`.

        In `soft` and `hidden`, `correct` is the number of predictions in which student and teacher
        agree.
        """
        weights = self.weights
        from_teacher = self.teacher.outputs(batch)
        with watch_last_layer(model, all_tokens=from_teacher.hidden is not None) as last_layer:
            outputs = self.task.outputs(model, batch)
        soft = self.task.distillation_loss(
            outputs, from_teacher.outputs, batch, weights.soft_temperature
        )
        counts = self.counts(batch)
        # `soft` is the summed loss and the number of predictions that agree.
        terms = {
            self.task.name: self._own_term(outputs, batch),
            "soft": LossTerm(*soft, counts["soft"], weights.soft_weight),
        }
        if from_teacher.hidden is not None and weights.hidden_weight:
            hidden = soft_vector_loss(
                last_layer.vectors(batch), from_teacher.hidden, close=MAX_COSINE_DISTANCE
            )
            terms["hidden"] = LossTerm(*hidden, counts["hidden"], weights.hidden_weight)
        return terms

    def _own_term(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute the term on the labels; zero for a batch without labels."""
        # The mean of this term is over labelled texts alone, while the teacher's terms have the
        # mean over all texts. Scaled by the share of labelled texts, each text counts the same.
        weight = (1 - self.weights.soft_weight) * self.labelled.batch_size / self.batch_size
        if UNLABELLED in batch.targets:
            zero = torch.zeros((), device=outputs.device)
            return LossTerm(zero, zero, 0, weight)
        return replace(self.task.compute_loss(outputs, batch), weight=weight)

    @property
    def evaluation(self) -> HeldOutData[BertModel]:
        return self.labelled.evaluation

    def describe(self, step: int) -> str:
        return "; ".join(dataset.describe(step) for dataset in self._datasets)

    def identity(self) -> dict[str, Any]:
        unlabelled = None if self.unlabelled is None else self.unlabelled.identity()
        return {
            **self.labelled.identity(),
            "unlabelled_sha256": None if unlabelled is None else unlabelled["train_sha256"],
            "teaching": {**asdict(self.weights), **self.facts},
        }


def divide_batch(
    batch_size: int, num_labelled: int, num_unlabelled: int, fewest_labelled: int = 1
) -> tuple[int, int]:
    """Divide a step between labelled and unlabelled texts in proportion to their numbers.

    The step has at least `fewest_labelled` labelled texts and one text without a label.

    >>> divide_batch(16, 1000, 3000), divide_batch(16, 10, 100_000)
    ((4, 12), (1, 15))
    """
    share = num_labelled / (num_labelled + num_unlabelled)
    labelled = min(max(fewest_labelled, round(batch_size * share)), batch_size - 1)
    return labelled, batch_size - labelled


def _without_labels(batch: Batch) -> Batch:
    """Mark a batch as one without labels; the value of the mark has no meaning."""
    return replace(batch, targets={**batch.targets, UNLABELLED: torch.ones(())})
