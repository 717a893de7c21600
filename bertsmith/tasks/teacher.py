"""A teacher: batches in, what it says of them out.

It is an argument of whoever learns from it, and knows nothing of losses.
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
from bertsmith.model.used_words import UsedWords
from bertsmith.tasks.task import Task


@dataclass(frozen=True)
class Taught:
    """What a teacher says of a batch: its task's `outputs`, and where they are asked for the
    vectors of its last layer, `[tokens, hidden]`."""

    outputs: Tensor
    hidden: Tensor | None = None


class Teacher(Protocol):
    """Whoever knows a batch's right outputs."""

    def prepare(self, batch: Batch) -> Batch:
        """The batch with what `taught` needs of it besides; in the process that makes it."""
        ...

    def taught(self, batch: Batch) -> Taught:
        """What there is to imitate, on the batch's device."""
        ...

    def use_words(self, used: UsedWords) -> None:
        """Expect batches in which only these words are numbered."""
        ...


class LiveTeacher:
    """A model that is asked anew at each batch, by every process that learns; its weights exist
    once.

    Args:
        task: the teacher's own, which says what its outputs are.
        model: in the type that it is to compute in; is made one for reading.
        hidden: whether the vectors of its last layer are asked for.
    """

    def __init__(self, task: Task[Any, Any], model: BertModel, *, hidden: bool) -> None:
        self.task = task
        self.hidden = hidden
        self._shared = SharedModel(model.eval())

    @property
    def model(self) -> BertModel:
        """The teacher's model."""
        return self._shared.model

    def prepare(self, batch: Batch) -> Batch:
        """The batch as it is."""
        return batch

    def taught(self, batch: Batch) -> Taught:
        """The model's outputs, without gradients."""
        watching = watch_last_layer(self.model, every_token=self.hidden)
        with torch.no_grad(), watching as seen:
            outputs = self.task.outputs(self.model, batch)
            return Taught(outputs, seen.vectors(batch) if self.hidden else None)

    def use_words(self, used: UsedWords) -> None:
        """Leave the teacher only these words too."""
        used.of_other(self.model).narrow(self.model)


def fingerprint(model: BertModel) -> str:
    """SHA-256 of a model's shape and weights, as they are now."""
    digest = hashlib.sha256(json.dumps(asdict(model.config), sort_keys=True).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy())
    return digest.hexdigest()
