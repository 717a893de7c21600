"""Teachers for distillation: a model's outputs for a batch, without any loss.

A batch carries *targets* by name: tensors such as labels, from which losses are computed.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.last_layer import watch_last_layer
from bertsmith.model.shared import SharedModel
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.tasks.task import Task


@dataclass(frozen=True)
class TeacherOutput:
    """A teacher's outputs for a batch, and its last-layer vectors if they were requested."""

    outputs: Tensor
    """Outputs of the task, such as logits `[sequences, labels]`."""
    hidden: Tensor | None = None
    """Last-layer vectors `[tokens, hidden]`."""


class Teacher(Protocol):
    """Source of a teacher's outputs: the model (`LiveTeacher`), or files (`StoredTeacher`)."""

    def prepare(self, batch: Batch) -> Batch:
        """Add the targets that `outputs` needs.

        It is called in the process that makes the batch; another process may compute with it.
        """
        ...

    def outputs(self, batch: Batch) -> TeacherOutput:
        """Return the teacher's outputs, on the batch's device."""
        ...

    def narrow_vocabulary(self, used: VocabularySubset) -> None:
        """Prepare for batches whose token ids are positions in this subset of the vocabulary."""
        ...


class LiveTeacher:
    """A model that computes its outputs anew for each batch.

    Every training process calls the model, but its weights exist only once in memory.

    Args:
        task: the task of the teacher, whose `outputs` are returned.
        model: the teacher in the dtype in which it is to compute; it becomes read-only.
        hidden: whether last-layer vectors are requested.
    """

    def __init__(self, task: Task[Any, Any], model: BertModel, *, hidden: bool) -> None:
        self.task = task
        self.hidden = hidden
        self._shared = SharedModel(model.eval())

    @property
    def model(self) -> BertModel:
        return self._shared.model

    def prepare(self, batch: Batch) -> Batch:
        return batch

    def outputs(self, batch: Batch) -> TeacherOutput:
        watching = watch_last_layer(self.model, all_tokens=self.hidden)
        with torch.no_grad(), watching as last_layer:
            outputs = self.task.outputs(self.model, batch)
            return TeacherOutput(outputs, last_layer.vectors(batch) if self.hidden else None)

    def narrow_vocabulary(self, used: VocabularySubset) -> None:
        """Keep only the subset's rows of the model's word embedding, before training begins."""
        used.shrink(self.model)


def fingerprint(model: BertModel, pooling: str = "mean") -> str:
    """Compute the SHA-256 of a model's config and current weights.

    Args:
        pooling: the pooling of token vectors to one vector per text, which config.json does not
            name. With "mean", the usual one, the result depends on the model alone.
    """
    digest = hashlib.sha256(json.dumps(asdict(model.config), sort_keys=True).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        # As bytes, since numpy has no bf16.
        digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    if pooling != "mean":
        digest.update(pooling.encode())
    return digest.hexdigest()
