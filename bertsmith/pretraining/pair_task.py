"""The base class of tasks that a model learns beside masked LM, such as next sentence prediction.

A pair task chooses the text of each row (one training sequence, such as [CLS] A [SEP] B [SEP]), and
adds one loss term. A row is built around an *anchor*, a token position in the corpus. `PAIR_TASKS`
of `model/pretraining_catalog.py` lists the tasks.
"""

from pkgutil import resolve_name
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.errors import option
from bertsmith.model.bert import BertModel
from bertsmith.model.pretraining_catalog import PAIR_TASKS
from bertsmith.pretraining.segments import Segments
from bertsmith.pretraining.token_counts import IdArray
from bertsmith.training.objective import LossTerm


class TextLengths(NamedTuple):
    """Text tokens that fit into a row of one segment and of two, beside special tokens."""

    one_segment: int
    two_segments: int


class PairTask:
    """A task on two segments of a row, or on pairs of rows.

    Here the loss is that of a head that reads the pooled vector of a row (by default from [CLS])
    and predicts its label. A task with another loss overrides `targets` and `loss`.

    Args:
        name: the name of the task in the catalog.
    """

    rows_per_anchor: int = 1
    """Number of rows that are built around one position of the text. They stay in one batch."""
    min_rows: int = 1
    """Fewest rows of a batch for which the loss means something."""
    compares_rows: bool = False
    """Whether the loss of a row depends on the other rows of its micro-batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Value of `--pairs`, which also names the model's head and begins the names of targets."""
        self.term = PAIR_TASKS[name].term
        """Name of the loss term in the journal."""

    def has_pairs(self, corpus: Corpus) -> bool:
        """Return whether any row of a corpus can have a label."""
        return corpus.num_sentences > corpus.num_documents

    def describe_missing_pairs(self, corpus: Corpus) -> str:
        """Say in an error message why a corpus has no pairs, and what to do."""
        return (
            f"{corpus.directory}: none of its documents to learn from ({corpus.num_documents:,}) "
            f"has two sentences, which {option('pairs', self.name)} needs. Build the corpus from "
            f"longer documents (an empty line separates them), or pass {option('pairs', 'none')}."
        )

    def check_batch_size(self, batch_size: int) -> None:
        """Raise ConfigError if the task cannot use a step of so many rows."""

    def check_micro_batch_size(self, micro_batch_size: int) -> None:
        """Raise ConfigError if the task cannot use micro-batches of so many rows."""

    def draw(
        self,
        corpus: Corpus,
        anchors: np.ndarray,
        lengths: TextLengths,
        short_seq_prob: float,
        rng: np.random.Generator,
    ) -> Segments:
        """Draw the token spans and labels of `rows_per_anchor` rows for each anchor.

        A row without a label has IGNORE_INDEX.

        Args:
            anchors: token offsets around which the rows are built, int64 `[anchors]`.
            lengths: the most tokens of text in a row.
            short_seq_prob: probability that a row of two segments is cut to a random length.
        """
        raise NotImplementedError

    def targets(self, labels: IdArray, batch: Batch) -> dict[str, Tensor]:
        """Return the targets that `loss` needs: `NAME_rows` and `NAME_labels`.

        NAME is the name of the task. `NAME_rows` are the positions in the batch of the rows that
        have a label, and `NAME_labels` their labels; both are int64 `[rows with a label]`.

        Args:
            labels: the labels that `draw` returned, in the order of the batch, int64 `[rows]`.
        """
        rows = np.flatnonzero(labels != IGNORE_INDEX)
        return {
            f"{self.name}_rows": torch.from_numpy(rows),
            f"{self.name}_labels": torch.from_numpy(labels[rows]),
        }

    def count(self, batch: Batch) -> int:
        """Count the predictions of the loss term."""
        return len(batch.targets[f"{self.name}_labels"])

    def loss(self, model: BertModel, hidden: Tensor, batch: Batch) -> LossTerm:
        """Compute the loss term from the last layer's vectors, [tokens, hidden].

        Raises:
            ConfigError: the head reads a pooler that the model lacks.
        """
        pooled = model.pool(hidden, batch).index_select(0, batch.targets[f"{self.name}_rows"])
        labels = batch.targets[f"{self.name}_labels"]
        logits = model.heads[self.name](pooled).float()
        loss = F.cross_entropy(logits, labels, reduction="sum")
        correct = (logits.argmax(-1) == labels).sum()
        return LossTerm(loss, correct, len(labels))


def load_pair_task(name: str) -> PairTask | None:
    """Build the pair task of this name, whose class is imported only now; None for "none"."""
    if name == "none":
        return None
    task: type[PairTask] = resolve_name(PAIR_TASKS[name].implementation)
    return task(name)
