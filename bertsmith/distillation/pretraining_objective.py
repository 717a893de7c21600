"""The objective of pre-training with a teacher: DistilBERT's three losses (Sanh et al. 2019).

The loss (section 2 there) has three terms: `mlm`, masked LM; `soft`, the loss on the teacher's
predictions at masked tokens as soft targets; and `hidden`, the distance (1 - cosine) of the
last-layer vectors of student and teacher. Batches are made as in pre-training.
"""

from dataclasses import asdict, replace
from typing import Any, cast

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.distillation.objective import MAX_COSINE_DISTANCE, DistillationWeights
from bertsmith.distillation.teacher import TeacherOutput
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.last_layer import watch_last_layer
from bertsmith.model.masked_lm_loss import LogitFactors, soft_lm_loss
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.shared import SharedModel
from bertsmith.pretraining.objective import Pretraining
from bertsmith.tasks.soft_targets import soft_vector_loss
from bertsmith.training.objective import HeldOutData, LossTerm, Objective


class PretrainingDistillation(Objective[BertModel, Batch]):
    """The pre-training objective with a teacher (Sanh et al. 2019, section 2).

    Args:
        pretraining: provides batches, the masked-LM loss and evaluation.
        teacher: a read-only model with a masked-LM head, in the dtype in which it computes.
        weights: weight of each term of the loss.
        fingerprint: SHA-256 of the teacher's config and weights.
    """

    def __init__(
        self,
        pretraining: Pretraining,
        teacher: SharedModel,
        weights: DistillationWeights,
        fingerprint: str,
    ) -> None:
        self.pretraining = pretraining
        self.teacher = teacher
        self.weights = weights
        self.fingerprint = fingerprint

    def num_micro_batches(self, step: int) -> int:
        return self.pretraining.num_micro_batches(step)

    def micro_batch(self, step: int, index: int) -> Batch:
        return self.pretraining.micro_batch(step, index)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count masked tokens for `mlm` and `soft`, and all tokens for `hidden`."""
        counts = self.pretraining.counts(batch)
        counts["soft"] = counts["mlm"]
        if self.weights.hidden_weight:
            counts["hidden"] = batch.num_tokens
        return counts

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute the terms of pre-training, `soft` and, if it is weighted, `hidden`.

        In `soft` and `hidden`, `correct` is the number of predictions in which student and teacher
        agree.
        """
        weights = self.weights
        with watch_last_layer(model) as last_layer:
            own_terms = self.pretraining.losses(model, batch)
        own_weight = 1 - weights.soft_weight
        terms = {name: replace(term, weight=own_weight) for name, term in own_terms.items()}
        vectors = last_layer.vectors(batch)
        from_teacher = self._teacher_outputs(batch)
        terms["soft"] = self._soft_term(model, vectors, from_teacher.outputs, batch)
        if from_teacher.hidden is not None:
            # The summed loss, and the number of vectors that are close enough to agree.
            hidden = soft_vector_loss(vectors, from_teacher.hidden, close=MAX_COSINE_DISTANCE)
            terms["hidden"] = LossTerm(*hidden, batch.num_tokens, weights.hidden_weight)
        return terms

    def _teacher_outputs(self, batch: Batch) -> TeacherOutput:
        """Return as outputs the teacher's last-layer vectors at masked tokens, `[masked, hidden]`.

        If the term `hidden` is weighted, the vectors of all tokens are returned as well.
        """
        with torch.no_grad():
            vectors = self.teacher.model.encode(batch)
        at_masked = vectors.index_select(0, batch.targets["masked_positions"])
        return TeacherOutput(at_masked, vectors if self.weights.hidden_weight else None)

    def _soft_term(
        self, model: BertModel, vectors: Tensor, teacher_vectors: Tensor, batch: Batch
    ) -> LossTerm:
        """Compute the loss on the teacher's predictions at masked tokens.

        `vectors` are the student's at all tokens, `[tokens, hidden]`; `teacher_vectors` are those
        at masked tokens.
        """
        positions = batch.targets["masked_positions"]
        student_logits = logit_factors(model, vectors.index_select(0, positions))
        with torch.no_grad():
            teacher_logits = logit_factors(self.teacher.model, teacher_vectors)
        temperature = self.weights.soft_temperature
        # `count`: the rows after these fill up the matrices (`fill_up`), and have no loss.
        loss, num_alike = soft_lm_loss(
            student_logits, teacher_logits, count=len(positions), temperature=temperature
        )
        return LossTerm(loss, num_alike, len(positions), self.weights.soft_weight)

    @property
    def evaluation(self) -> HeldOutData[BertModel]:
        return self.pretraining.evaluation

    def describe(self, step: int) -> str:
        return self.pretraining.describe(step)

    def describe_change(self, step: int) -> str:
        return self.pretraining.describe_change(step)

    def identity(self) -> dict[str, Any]:
        weights = {**asdict(self.weights), "teacher": self.fingerprint}
        return {**self.pretraining.identity(), "teaching": weights}


def logit_factors(model: BertModel, vectors: Tensor) -> LogitFactors:
    """Return the matrices whose product is a masked-LM head's logits, and the bias.

    The logits themselves would be the largest tensor of a step. `vectors` are `[positions,
    hidden]`; they are padded by `fill_up`.
    """
    head = cast(MaskedLMHead, model.heads["masked_lm"])
    return LogitFactors(head.transform(fill_up(vectors)), model.embeddings.word.weight, head.bias)
