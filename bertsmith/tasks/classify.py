"""Sorting texts into classes: labelled examples in, a trained head, scores and decisions out.

The model is BERT's encoder and pooler with a linear layer on [CLS] (paper, section 4.1), learnt
by cross entropy. Batches hold real tokens only; texts are shuffled anew each epoch.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith import metrics
from bertsmith.data.batches import Batch, group_by_length
from bertsmith.data.encoded_texts import EncodedTexts, Text, as_pairs, encode_texts
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import (
    LoadedModel,
    compute_in_order,
    load_for_inference,
    pack_texts,
)
from bertsmith.tasks.objective import LossTerm

Metric = Literal["accuracy", "macro_f1"]


@dataclass(frozen=True)
class LabelledTexts:
    """Encoded texts, the class of each (int64 `[texts]`), and where each stands in its file."""

    texts: EncodedTexts
    labels: NDArray[np.int64]
    path: Path
    rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def digest(self) -> str:
        """SHA-256 of ids and labels."""
        digest = hashlib.sha256(self.labels.tobytes())
        for row in self.texts.ids:
            digest.update(row.tobytes())
        return digest.hexdigest()


class Classification:
    """The objective of fine-tuning: cross entropy over `batch_size` texts a step.

    Args:
        train: the texts to learn from.
        held_out: the texts to score; both share their class numbers.
        num_labels: how many classes there are.
        batch_size: texts in one step; the last step of an epoch takes what is left.
        num_parts: how many parts a step is divided into, to be computed at the same time.
        micro_batch_tokens: tokens in one forward pass; a part with more is divided.
        seed: decides the order of the texts.
    """

    def __init__(
        self,
        train: LabelledTexts,
        held_out: LabelledTexts,
        num_labels: int,
        *,
        batch_size: int = 16,
        num_parts: int = 1,
        micro_batch_tokens: int = 16_384,
        seed: int = 0,
    ) -> None:
        self.train = train
        self.held_out = held_out
        self.num_labels = num_labels
        self.batch_size = batch_size
        self.num_parts = num_parts
        self.micro_batch_tokens = micro_batch_tokens
        self.seed = seed
        self._shuffled: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every training text is seen once."""
        return -(-len(self.train) // self.batch_size)

    def micro_batches(self, step: int) -> list[Batch]:
        """The texts of one step (counted from 1): a function of the data, the seed and `step`."""
        lengths = self.train.texts.lengths
        # Dealt out from the longest to the shortest, so that all parts have as much to do.
        chosen = sorted(self.chosen(step), key=lambda i: -lengths[i])
        parts = [chosen[first :: self.num_parts] for first in range(self.num_parts)]
        return [
            collate(self.train, [part[i] for i in group])
            for part in parts
            for group in group_by_length([lengths[i] for i in part], self.micro_batch_tokens)
        ]

    def chosen(self, step: int) -> list[int]:
        """Which training texts a step takes, as places in `train`."""
        epoch, place = divmod(step - 1, self.steps_per_epoch)
        known, order = self._shuffled
        if known != epoch:
            order = np.random.default_rng((self.seed, epoch)).permutation(len(self.train))
            self._shuffled = (epoch, order)
        chosen: list[int] = order[place * self.batch_size : (place + 1) * self.batch_size].tolist()
        return chosen

    def counts(self, batch: Batch) -> dict[str, int]:
        """One prediction per text."""
        return {"classify": batch.num_sequences}

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Cross entropy summed over the texts of the batch."""
        logits = class_logits(model, batch)
        labels = batch.targets["labels"]
        return {
            "classify": LossTerm(
                sum=F.cross_entropy(logits, labels, reduction="sum"),
                correct=(logits.argmax(-1) == labels).sum(),
                count=batch.num_sequences,
            )
        }

    def evaluate(self, model: BertModel) -> dict[str, float]:
        """Loss, accuracy and macro-F1 on the held-out texts."""
        labels = self.held_out.labels
        logits = compute_in_order(model, self.held_out.texts, class_logits)
        confusion = metrics.confusion_matrix(labels, logits.argmax(-1), self.num_labels)
        log_probabilities = np.log(softmax(logits)[np.arange(len(labels)), labels])
        loss = float(-log_probabilities.mean())
        return {
            "held_out_loss": loss,
            "held_out_classify_loss": loss,
            "held_out_classify_accuracy": metrics.accuracy(confusion),
            "held_out_classify_macro_f1": metrics.macro_f1(confusion),
        }

    def describe(self, step: int) -> str:
        """The rows of the training file that a step takes."""
        rows = sorted(self.train.rows[i] for i in self.chosen(step))
        return f"{self.train.path}: rows {', '.join(map(str, rows))}"

    def identity(self) -> dict[str, Any]:
        """What a continued run must share with its beginning."""
        return {
            "task": "classify",
            "train_sha256": self.train.digest(),
            "held_out_sha256": self.held_out.digest(),
            "batch_size": self.batch_size,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest label of a text, and the probability of every label."""

    label: str
    probabilities: Mapping[str, float]
    is_truncated: bool
    """Whether the text was longer than the model reads, and its end had no part in this."""

    @property
    def probability(self) -> float:
        """How sure the model is of `label`, from 0 to 1."""
        return self.probabilities[self.label]


class Classifier:
    """A fine-tuned model: called with texts, gives their labels."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.names = tuple(name for _, name in sorted(loaded.model.id2label.items()))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
    ) -> Self:
        """The classifier in a model folder with a classification head."""
        return cls(
            load_for_inference(
                path, head="classify", device=device, precision=precision, max_length=max_length
            )
        )

    @overload
    def __call__(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Sequence[Text]) -> list[Prediction]: ...
    def __call__(self, texts: str | Sequence[Text]) -> Prediction | list[Prediction]:
        """Predict one text, or each of several texts or pairs (tuples of two texts)."""
        if isinstance(texts, str):
            return self([texts])[0]
        encoded = self.encode(as_pairs(texts))
        return [
            Prediction(
                label=self.names[row.argmax()],
                probabilities=dict(zip(self.names, row.tolist(), strict=True)),
                is_truncated=num_cut > 0,
            )
            for row, num_cut in zip(self.probabilities(encoded), encoded.num_cut, strict=True)
        ]

    def labels(self, texts: Sequence[Text]) -> list[str]:
        """The likeliest label of each text, and nothing else."""
        rows = self.probabilities(self.encode(as_pairs(texts)))
        return [self.names[place] for place in rows.argmax(-1)]

    def encode(self, texts: Iterable[tuple[str, str | None]]) -> EncodedTexts:
        """Token ids of texts or pairs, cut to what the model reads."""
        return encode_texts(self.loaded.tokenizer, texts, self.loaded.max_length)

    def probabilities(self, texts: EncodedTexts) -> NDArray[np.float64]:
        """Probabilities `[texts, labels]`, in the order of the texts and of `names`."""
        if not len(texts):
            return np.empty((0, len(self.names)))
        return softmax(compute_in_order(self.loaded.model, texts, class_logits))


def collate(data: LabelledTexts, indices: Sequence[int]) -> Batch:
    """The texts at `indices` as one batch, with `targets["labels"]` int64 `[sequences]`."""
    batch = pack_texts(data.texts, indices)
    labels = data.labels[[indices[place] for place in batch.order]]
    return replace(batch, targets={"labels": torch.from_numpy(labels)})


def class_logits(model: BertModel, batch: Batch) -> Tensor:
    """Logits in fp32, `[sequences, classes]`, in the batch's order."""
    # In training the whole last layer is computed, and with it every token's own dropout.
    pooled = (
        model.pool(model.encode(batch), batch) if model.training else model.encode_pooled(batch)
    )
    head = model.heads["classify"]
    logits: Tensor = head(pooled.to(next(head.parameters()).dtype))
    return logits.float()


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Probabilities in float64, `[texts, classes]`; each row sums to 1."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    probabilities: NDArray[np.float64] = shifted / shifted.sum(-1, keepdims=True)
    return probabilities
