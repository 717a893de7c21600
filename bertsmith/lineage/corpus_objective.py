"""The base class of the objectives of models beside BERT: rows of a corpus, batches, evaluations.

A step's batch is computed in micro-batches, and an evaluation in parts, one for each process.
"""

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.corpus import Corpus
from bertsmith.lineage.text_windows import TextWindow, TextWindows
from bertsmith.model.trainable import TrainableModel
from bertsmith.pretraining.objective import describe_span, held_out_figures, terms_on_cpu
from bertsmith.pretraining.row_source import EVALUATION_TOKENS
from bertsmith.pretraining.token_counts import unigram_entropy
from bertsmith.system.files import sha256_file
from bertsmith.training.budget import MAX_EVAL_ROWS
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import LossTerm, Objective, TrainingBatch

# Second number of a random key, so that training and eval rows are drawn independently.
TRAIN_STREAM = 0
HELD_OUT_STREAM = 1

ModelT = TypeVar("ModelT", bound=TrainableModel)
BatchT = TypeVar("BatchT", bound=TrainingBatch)


class CorpusObjective(Objective[ModelT, BatchT]):
    """An objective whose rows are windows of a corpus.

    Args:
        train: the split to train on.
        held_out: the split to evaluate on; if it has no document, nothing is measured.
        max_length: maximum number of tokens in a row, special ones included.
        batch_size: rows per step.
        micro_batch_size: rows per forward pass; by default all of a step.
        seed: determines the rows and all that is drawn for them.
        eval_rows: number of eval rows, which are the same in each evaluation.
    """

    term: ClassVar[str]
    """Name of the loss term, or of the objective if it has several terms."""
    num_special_tokens: ClassVar[int] = 2
    """Maximum number of special tokens in a row."""

    def __init__(
        self,
        train: Corpus,
        held_out: Corpus,
        max_length: int,
        *,
        batch_size: int,
        micro_batch_size: int | None = None,
        seed: int = 0,
        eval_rows: int = 512,
    ) -> None:
        length = max_length - self.num_special_tokens
        self.max_length = max_length
        self.batch_size = batch_size
        self.micro_batch_size = micro_batch_size or batch_size
        self.seed = seed
        self.eval_rows = eval_rows
        self.train = TextWindows(train, length, seed)
        self.held_out = TextWindows(held_out, length, seed) if held_out.num_documents else None
        self._evaluation: list[BatchT] | None = None

    @abstractmethod
    def collate(
        self, rows: Sequence[TextWindow], step_indices: Sequence[int], key: tuple[int, ...]
    ) -> BatchT:
        """Build a batch of rows, with the tokens to predict.

        Args:
            step_indices: the index of each row in its step, by which its dropout is drawn; of eval
                rows, which have no dropout, the index in the evaluation.
            key: the key of `row_generator`; with a row's index it seeds the generator of the row.
        """

    @property
    def num_held_out(self) -> int:
        # Eval rows are drawn from the text, so there is no largest number of them.
        return 0 if self.held_out is None else MAX_EVAL_ROWS

    def resized(self, batch_size: int, eval_rows: int) -> Self:
        """Return a copy with other numbers of rows, which reads the same corpus."""
        other = copy.copy(self)
        other.batch_size = batch_size
        other.eval_rows = eval_rows
        other._evaluation = None
        return other

    def num_micro_batches(self, step: int) -> int:
        return math.ceil(self.batch_size / self.micro_batch_size)

    def micro_batch(self, step: int, index: int) -> BatchT:
        """Build the micro-batch `index`, from 0, of a step, from 1."""
        first = index * self.micro_batch_size
        step_indices = range(first, min(first + self.micro_batch_size, self.batch_size))
        rows = self.train.read((step - 1) * self.batch_size + first, len(step_indices))
        return self.collate(list(rows), step_indices, (self.seed, TRAIN_STREAM, step))

    @property
    def evaluation(self) -> Self:
        """The object that evaluates: the objective itself, as it has the eval rows."""
        return self

    def evaluate_part(self, model: ModelT, part: int, num_parts: int) -> list[dict[str, LossTerm]]:
        """Compute the loss terms of every `num_parts`-th eval batch, from batch `part` on."""
        batches = self.held_out_batches(model, part, num_parts)
        return [terms_on_cpu(self.losses(model, batch)) for batch in batches]

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute loss (nats) and accuracy on the eval rows, by their names in the journal.

        Args:
            results: the results of `evaluate_part` for each part.
        """
        return {} if self.held_out is None else held_out_figures(interleave(results))

    def held_out_batches(
        self, model: ModelT, part: int = 0, num_parts: int = 1
    ) -> Iterator[BatchT]:
        """Yield every `num_parts`-th eval batch from batch `part` on, on the model's device."""
        device = model.device
        for batch in self.held_out_rows()[part::num_parts]:
            yield batch.to(device)

    def held_out_rows(self) -> list[BatchT]:
        """Return all eval batches, on the CPU."""
        if self._evaluation is None:
            self._evaluation = self._build_evaluation()
        return self._evaluation

    def _build_evaluation(self) -> list[BatchT]:
        if self.held_out is None:
            return []
        rows_per_batch = max(1, EVALUATION_TOKENS // self.max_length)
        key = (self.seed, HELD_OUT_STREAM)
        batches = []
        for first in range(0, self.eval_rows, rows_per_batch):
            numbers = range(first, min(first + rows_per_batch, self.eval_rows))
            rows = list(self.held_out.read(first, len(numbers)))
            batches.append(self.collate(rows, numbers, key))
        return batches

    def describe(self, step: int) -> str:
        """List the documents and sentences of a step's rows, counted from 0, for messages."""
        corpus = self.train.corpus
        spans = self.train.locate((step - 1) * self.batch_size, self.batch_size)
        rows = [describe_span(corpus, start, end) for row in spans.of_rows() for start, end in row]
        return f"{corpus.directory}: " + "; ".join(rows)

    def identity(self) -> Mapping[str, Any]:
        """Return checksums of the data, by which a resumed run knows that it has not changed."""
        corpus = self.train.corpus
        return {
            "objective": self.term,
            "corpus_sha256": sha256_file(corpus.directory / "manifest.json"),
            "tokenizer": corpus.tokenizer_fingerprint,
        }

    def facts(self) -> dict[str, float]:
        """Compute statistics of the corpus, and a baseline for the loss.

        `held_out_unigram_entropy` (nats) is the loss of predicting each token by its frequency in
        the training split.
        """
        corpus = self.train.corpus
        facts: dict[str, float] = {
            "train_documents": corpus.num_documents,
            "train_tokens": corpus.num_tokens,
            "rows_per_epoch": self.train.rows_per_epoch,
            "unknown_rate": corpus.manifest.unknown_rate,
        }
        if self.held_out is not None:
            facts["held_out_tokens"] = self.held_out.corpus.num_tokens
            facts["held_out_unigram_entropy"] = unigram_entropy(corpus, self.held_out.corpus)
        return facts


def bits_per_byte(nats_per_token: float, corpus: Corpus) -> float:
    """Convert the loss per token of a corpus to bits per byte of its documents in UTF-8.

    The bytes are those of the texts before tokenization, so models with different vocabularies can
    be compared.
    """
    return nats_per_token / math.log(2) * corpus.num_tokens / max(1, corpus.num_bytes)


def predictions_per_token(labels: Sequence[Tensor], end_id: int) -> float:
    """Return the mean number of predictions per token of the text.

    It is at least 1, and above 1 if a document ends in the rows, as ends are predicted, too.

    Args:
        labels: int64 [predictions] of each batch, `end_id` where a document ends.
    """
    all_labels = torch.cat(list(labels))
    return len(all_labels) / max(1, int((all_labels != end_id).sum()))


def row_generator(key: tuple[int, ...], number: int) -> np.random.Generator:
    """Return the random generator of one row, by its index in the step or evaluation.

    Args:
        key: seed and stream; in training also the step.
    """
    return np.random.default_rng([*key, number])
