"""Learning a language from a teacher: pre-training's objective and a teacher in, loss terms out.

DistilBERT's triple loss (Sanh et al. 2019, section 2): the hidden words themselves, the teacher's
guesses at them as soft targets, and the cosine of the last layer's vectors. The batches are those
of pre-training.
"""

from dataclasses import asdict, replace
from typing import Any, cast

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.last_layer import watch_last_layer
from bertsmith.model.shared import SharedModel
from bertsmith.model.sizes import fill_up
from bertsmith.model.soft_lm_loss import Guesses, soft_lm_loss
from bertsmith.tasks.distillation import CLOSE, Teaching
from bertsmith.tasks.objective import LossTerm
from bertsmith.tasks.pretraining import Pretraining
from bertsmith.tasks.soft_targets import soft_vector_loss
from bertsmith.tasks.teacher import Taught
from bertsmith.tasks.teacher_vectors import VectorCache


class PretrainingDistillation:
    """Pre-training with a teacher, as the training loop wants it.

    Args:
        pretraining: gives the batches, the masked-LM loss and what is held out.
        teacher: a model for reading, with a masked-LM head, in the type that it computes in.
        teaching: how much each term counts.
        fingerprint: tells the teacher from others.
        cache: keeps what the teacher makes of each batch. It changes no number.
    """

    def __init__(
        self,
        pretraining: Pretraining,
        teacher: SharedModel,
        teaching: Teaching,
        fingerprint: str,
        cache: VectorCache | None = None,
    ) -> None:
        self.pretraining = pretraining
        self.teacher = teacher
        self.teaching = teaching
        self.fingerprint = fingerprint
        self.cache = cache

    def micro_batches(self, step: int) -> list[Batch]:
        """The batches of pre-training."""
        return self.pretraining.micro_batches(step)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Hidden words twice, for both who say what they are; and tokens where vectors count."""
        own = self.pretraining.counts(batch)
        tokens = {"hidden": batch.num_tokens} if self.teaching.hidden_weight else {}
        return {**own, "soft": own["mlm"], **tokens}

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """The terms of pre-training, `soft` and `hidden`; of these `correct` is how often student
        and teacher say the same."""
        teaching = self.teaching
        with watch_last_layer(model) as student:
            terms = self.pretraining.losses(model, batch)
        vectors = student.vectors(batch)
        taught = self._taught(batch)
        own = {n: replace(t, weight=1 - teaching.soft_weight) for n, t in terms.items()}
        soft = self._soft_term(model, vectors, taught.outputs, batch)
        if taught.hidden is None:
            return {**own, "soft": soft}
        hidden = soft_vector_loss(vectors, taught.hidden, CLOSE)
        return {
            **own,
            "soft": soft,
            "hidden": LossTerm(*hidden, batch.num_tokens, teaching.hidden_weight),
        }

    def _taught(self, batch: Batch) -> Taught:
        """The teacher's vectors of the hidden words, and where they count those of all tokens."""
        encode = self.teacher.model.encode
        with torch.no_grad():
            if self.cache is None:
                vectors = encode(batch)
            else:
                vectors = self.cache.vectors(batch, lambda: encode(batch))
        if self.cache is not None and not self.cache.holds_all:
            return Taught(vectors)
        at_hidden = vectors.index_select(0, batch.targets["masked_positions"])
        return Taught(at_hidden, vectors if self.teaching.hidden_weight else None)

    def _soft_term(
        self, model: BertModel, vectors: Tensor, taught: Tensor, batch: Batch
    ) -> LossTerm:
        positions = batch.targets["masked_positions"]
        student = guesses(model, vectors.index_select(0, positions))
        with torch.no_grad():
            teacher = guesses(self.teacher.model, taught)
        temperature = self.teaching.soft_temperature
        loss, alike = soft_lm_loss(student, teacher, len(positions), temperature)
        return LossTerm(loss, alike, len(positions), self.teaching.soft_weight)

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """The figures of pre-training on held-out text."""
        return self.pretraining.evaluate(model)

    def describe(self, step: int) -> str:
        """Where the rows of a step come from."""
        return self.pretraining.describe(step)

    def identity(self) -> dict[str, Any]:
        """What a continued run must share with its beginning: also who taught, and how."""
        teaching = {**asdict(self.teaching), "teacher": self.fingerprint}
        return {**self.pretraining.identity(), "teaching": teaching}


def guesses(model: BertModel, vectors: Tensor) -> Guesses:
    """What a model with a masked-LM head guesses from vectors `[positions, hidden]`, which are
    filled up."""
    head = cast(MaskedLMHead, model.heads["masked_lm"])
    return Guesses(head.transform(fill_up(vectors)), model.embeddings.word.weight, head.bias)
