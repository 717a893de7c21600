"""Log-likelihoods of sentences by a GPT, LSTM or ELMo, with which it judges minimal pairs.

A minimal pair has two sentences that differ in little, and of which one is good.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch, pack
from bertsmith.data.length_groups import group_by_length
from bertsmith.errors import InputError, SettingError
from bertsmith.lineage.bidirectional_lm import DIRECTIONS, predicting_positions
from bertsmith.lineage.elmo import Elmo
from bertsmith.lineage.elmo_folder import load_elmo
from bertsmith.lineage.generation import evaluating
from bertsmith.lineage.system_folder import read_model_type
from bertsmith.lineage.text_generation import TextGenerator
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.masked_lm_loss import token_log_probs
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.hardware import select_device
from bertsmith.tasks.pair_scores import MinimalPair, PairScores
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

SCORABLE_MODEL_TYPES = ("gpt2", "recurrent", "elmo")
"""The `model_type` of the models that `load_sentence_scorer` loads."""
TOKENS_AT_ONCE = 4096
"""Number of tokens, padding included, that are computed together, to bound memory."""


class SentenceScorer(ABC):
    """Scorer of sentences by the sum of the log-probabilities of their tokens.

    Special tokens are not part of the sum. `num_tokens` counts the tokens of all sentences scored
    so far, with their start tokens, and `num_unknown` the unknown ones among them.

    Args:
        longest: maximum number of tokens of a sentence, with the start token; None if unlimited.
    """

    def __init__(self, model: TrainableModel, tokenizer: Tokenizer, longest: int | None) -> None:
        self.model: Any = model
        self.tokenizer = tokenizer
        self.longest = longest
        self.num_tokens = self.num_unknown = 0

    @abstractmethod
    def encode(self, sentence: str) -> list[int]:
        """Encode a sentence, with the start token if the model has one."""

    @abstractmethod
    def log_likelihoods(self, rows: Sequence[np.ndarray]) -> tuple[Batch, np.ndarray]:
        """Pack the ids of sentences, and compute the log-likelihood of each, in nats.

        Args:
            rows: ids of each sentence, from `encode`, int64 [tokens].

        Returns:
            The batch, and the log-likelihoods, fp64 [sequences], in its order.
        """

    def predict(self, pairs: Sequence[MinimalPair]) -> list[PairScores]:
        """Score both sentences of each pair; a sentence that is too long is cut.

        Raises:
            InputError: a sentence has no token.
        """
        texts = [text for pair in pairs for text in pair.content]
        rows = [self.encode(text) for text in texts]
        for index, row in enumerate(rows):
            if len(row) < 2:
                name = ("sentence_good", "sentence_bad")[index % 2]
                raise InputError(
                    f"row {pairs[index // 2].row}: '{name}' has too few tokens to score. Fix the "
                    "row, or leave it out."
                )
        cut_rows = [row[: self.longest] for row in rows]
        scores = self._score(cut_rows)
        self.num_tokens += sum(map(len, cut_rows))
        self.num_unknown += sum(row.count(self.tokenizer.unk_id) for row in cut_rows)
        results = []
        for index in range(0, len(rows), 2):
            good_row, bad_row = cut_rows[index : index + 2]
            is_identical = good_row == bad_row
            is_cut = [good_row, bad_row] != rows[index : index + 2]
            # Equal sentences get one score, since rounding may differ between two batches.
            good, bad = scores[index], scores[index if is_identical else index + 1]
            results.append(PairScores(good, bad, is_identical, is_cut))
        return results

    def _score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Compute the log-likelihood of each row, in nats."""
        scores = np.zeros(len(rows))
        with evaluating(self.model):
            for group in group_by_length([len(row) for row in rows], TOKENS_AT_ONCE):
                ids = [np.array(rows[index], dtype=np.int64) for index in group]
                batch, values = self.log_likelihoods(ids)
                for index, value in zip(batch.order, values, strict=True):
                    scores[group[index]] = value
        return [float(score) for score in scores]


class LeftToRightScorer(SentenceScorer):
    """Scorer by a GPT or LSTM, which predicts each token from those before it.

    If the model has no start token, the first token of a sentence is not scored.
    """

    def __init__(self, generator: TextGenerator, max_length: int | None = None) -> None:
        limits = [limit for limit in (max_length, generator.longest) if limit is not None]
        super().__init__(generator.model, generator.tokenizer, min(limits, default=None))
        self.generator = generator

    def encode(self, sentence: str) -> list[int]:
        return self.generator.encode_prompt(sentence)

    def log_likelihoods(self, rows: Sequence[np.ndarray]) -> tuple[Batch, np.ndarray]:
        batch = pack(rows).to(self.model.device)
        is_last = np.zeros(batch.num_tokens, dtype=bool)
        is_last[np.cumsum(batch.lengths) - 1] = True
        positions = np.flatnonzero(~is_last)
        weight = self.model.word.weight
        bias = weight.new_zeros(len(weight))  # the output layer of these models has none
        hidden = self.model.encode(batch)
        return batch, _sum_log_probs(batch, hidden, weight, bias, positions, step=1)


class BidirectionalScorer(SentenceScorer):
    """Scorer by an ELMo, whose two directions predict a token from those before or after it.

    The log-likelihood of a sentence is the mean over the two directions.
    """

    def __init__(self, model: Elmo, tokenizer: Tokenizer, max_length: int | None = None) -> None:
        longest = None if max_length is None else max_length - 1  # the end token is read, too
        super().__init__(model, tokenizer, longest)

    def encode(self, sentence: str) -> list[int]:
        return [self.tokenizer.cls_id, *self.tokenizer.encode_ids(sentence)]

    def log_likelihoods(self, rows: Sequence[np.ndarray]) -> tuple[Batch, np.ndarray]:
        batch = pack([np.append(row, self.tokenizer.sep_id) for row in rows]).to(self.model.device)
        # Both directions read [CLS] and [SEP], and neither predicts them.
        not_predicted = np.zeros(batch.num_sequences, dtype=bool)
        positions = predicting_positions(
            batch.lengths, has_start=not_predicted, has_end=not_predicted
        )
        softmax = self.model.softmax
        both = [
            _sum_log_probs(
                batch, hidden, softmax.weight, softmax.bias, predicting, step=direction.step
            )
            for hidden, predicting, direction in zip(
                self.model.encode(batch), positions, DIRECTIONS, strict=True
            )
        ]
        return batch, np.mean(both, axis=0)


def load_sentence_scorer(
    path: str | Path, device: str = "auto", *, max_length: int | None = None
) -> SentenceScorer:
    """Load a folder, or a model of the Hugging Face hub.

    Args:
        max_length: maximum number of tokens of a sentence, special ones included; by default as
            many as the model reads.

    Raises:
        CheckpointError: as `TextGenerator.load` and `load_elmo`.
        ConfigError: `max_length` is too short for a token, or this machine has no such device.
    """
    directory = find_checkpoint(path)
    is_elmo = read_model_type(directory) == "elmo"
    min_length = 3 if is_elmo else 2
    if max_length is not None and max_length < min_length:
        raise SettingError("max_length", max_length, f"{min_length} or more")
    if not is_elmo:
        return LeftToRightScorer(TextGenerator.load(directory, device), max_length)
    target = select_device(device)
    return BidirectionalScorer(
        load_elmo(directory).to(target), load_tokenizer(directory), max_length
    )


def _sum_log_probs(
    batch: Batch, hidden: Tensor, weight: Tensor, bias: Tensor, positions: np.ndarray, *, step: int
) -> np.ndarray:
    """Sum the log-probabilities of the tokens that `positions` predict, for each sequence.

    Args:
        step: the distance from a position to the token that it predicts, 1 or -1.

    Returns:
        The sums, fp64 [sequences].
    """
    indices = torch.from_numpy(positions).to(hidden.device)
    labels = batch.input_ids.index_select(0, indices + step)
    values = token_log_probs(hidden.index_select(0, indices), weight, bias, labels)
    sequence = np.repeat(np.arange(batch.num_sequences), batch.lengths)[positions]
    return np.bincount(sequence, values.double().cpu().numpy(), minlength=batch.num_sequences)
