"""Classification with few labels: vectors of texts with the same label are brought together.

The encoder learns from pairs of labelled texts; few texts make many pairs. The cosine of a pair
should be 1 if both have the same label, and else 0 (SetFit, Tunstall et al. 2022, section 3). A
step compares all texts of its batch with each other, so that each text is encoded once for all of
its pairs. The head is fitted to the trained vectors afterwards (finetuning/contrastive_run.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example
from bertsmith.model.bert import BertModel
from bertsmith.tasks.example_objective import MICRO_BATCH_TOKENS, FineTuning
from bertsmith.tasks.label_prediction import ClassPrediction, LabelsPrediction
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_vectors import mean_vectors
from bertsmith.tasks.texts import LabelTask
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm


def label_similarity(labels: Tensor) -> Tensor:
    """Compute the cosine that each pair of texts should have, fp32 `[texts, texts]`.

    If a text has one label, `labels` are int64 `[texts]`, and the cosine is 1 for equal labels,
    else 0. If a text may have several labels, `labels` are fp32 0 or 1 `[texts, labels]`. The
    cosine is then the Jaccard index: the number of labels that both texts have, divided by the
    number of labels that at least one of them has. Two texts without a label have the cosine 1.
    """
    if labels.ndim == 1:
        return (labels[:, None] == labels).float()
    shared = labels @ labels.T
    counts = labels.sum(1)
    either = counts[:, None] + counts - shared
    return torch.where(either > 0, shared / either.clamp(min=1), 1.0)


def pair_loss(vectors: Tensor, similarity: Tensor) -> Tensor:
    """Compute the mean squared error of the cosines of all pairs of different texts.

    Pairs that share a label have half of the weight, and pairs that share none the other half. In
    SetFit this is so because it draws equally many pairs of both kinds. `vectors` are fp32 `[texts,
    hidden]`, `similarity` is the result of `label_similarity`, fp32 `[texts, texts]`.
    """
    unit_vectors = F.normalize(vectors, dim=-1)
    errors = (unit_vectors @ unit_vectors.T - similarity).square()
    are_different_texts = ~torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    share_a_label = (similarity > 0) & are_different_texts
    share_none = (similarity == 0) & are_different_texts
    # The mean over no pair is 0.
    means = [
        (errors * pairs).sum() / pairs.sum().clamp(min=1) for pairs in (share_a_label, share_none)
    ]
    return (means[0] + means[1]) / 2


def order_in_pairs(labels: Sequence[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw an order of the texts in which two texts with the same label follow each other.

    So a batch has pairs with the same label even if there are many labels. If the number of texts
    with a label is odd, one of them has no partner. The result holds indices into `labels`, int64
    `[texts]`.
    """
    texts_of_label: dict[Any, list[int]] = {}
    for text in rng.permutation(len(labels)).tolist():
        texts_of_label.setdefault(labels[text], []).append(text)
    pairs = [
        texts[first : first + 2]
        for texts in texts_of_label.values()
        for first in range(0, len(texts), 2)
    ]
    shuffled_pairs = [pairs[index] for index in rng.permutation(len(pairs))]
    return np.array([text for pair in shuffled_pairs for text in pair], dtype=np.int64)


@dataclass(frozen=True)
class ContrastiveTask(LabelTask[PredictionT]):
    """The common base of classification that learns from pairs of texts.

    It trains the encoder alone; a head is fitted to its vectors afterwards.
    """

    group_size: int = 16
    """Number of texts that are compared with each other: those of a step."""

    name = "contrast"  # of the loss among a run's metrics
    heads: ClassVar[tuple[str, ...]] = ()  # the loss reads the encoder's vectors

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode the texts; to train (`labelled`), a long text keeps only some of its windows.

        All texts of a step are in memory at once, since they are compared. So each may have only
        its share of the tokens of one forward pass.
        """
        encoded = super().encode(tokenizer, examples, max_length, labelled=labelled)
        return encoded.limit_tokens(MICRO_BATCH_TOKENS // self.group_size) if labelled else encoded

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute the vectors of the rows, fp32 `[sequences, hidden]`."""
        return mean_vectors(model, batch)

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute the loss of all pairs in a batch.

        `correct` counts the texts whose nearest other text has a label in common.
        """
        vectors = mean_over_rows(outputs.float(), batch)
        similarity = label_similarity(batch.targets["labels"])
        with torch.no_grad():
            unit_vectors = F.normalize(vectors, dim=-1)
            cosines = unit_vectors @ unit_vectors.T
            # -2 is below any cosine, so no text is its own neighbour, unless it is alone.
            nearest = cosines.fill_diagonal_(-2).argmax(1)
            num_right = (similarity.gather(1, nearest[:, None]) > 0).sum()
        # A loss term is a sum over texts, so the mean is multiplied by their number.
        return LossTerm(pair_loss(vectors, similarity) * len(vectors), num_right, len(vectors))


@dataclass(frozen=True)
class ContrastiveClassify(ContrastiveTask[ClassPrediction], Classify):
    """Training for one label per text or pair."""


@dataclass(frozen=True)
class ContrastiveMultiLabel(ContrastiveTask[LabelsPrediction], MultiLabel):
    """Training for any number of labels per text or pair."""


class PairTraining(FineTuning):
    """The objective of a contrastive task: its epochs keep texts with the same label together."""

    def draw_order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        labels = self.train.encoded.example_targets["labels"]
        # Bytes can be keys of a dictionary, unlike the array of a text's labels.
        return order_in_pairs([labels_of_text.tobytes() for labels_of_text in labels], rng)


def as_contrastive(task: LabelTask[Any], group_size: int) -> ContrastiveTask[Any]:
    """Return the task that trains an encoder on pairs, for the labels of `task`.

    The task compares `group_size` texts at a time.
    """
    task_class: Any = ContrastiveMultiLabel if isinstance(task, MultiLabel) else ContrastiveClassify
    values = {field.name: getattr(task, field.name) for field in fields(task)}
    return task_class(**values | {"group_size": group_size})
