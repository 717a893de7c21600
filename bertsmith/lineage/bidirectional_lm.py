"""Bidirectional language modelling: each token is predicted from those before, and those after.

Source: Peters et al. 2018, section 3.1. A row is `[CLS]`, the tokens of a window of one document
and `[SEP]`, from which the model reads to the left. `[SEP]` is predicted only where a document
ends, and `[CLS]` only where one begins. The loss is the mean of the losses of both directions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch, pack
from bertsmith.data.corpus import Corpus
from bertsmith.lineage.corpus_objective import (
    CorpusObjective,
    bits_per_byte,
    predictions_per_token,
)
from bertsmith.lineage.elmo import Elmo
from bertsmith.lineage.text_windows import TextWindow
from bertsmith.model.masked_lm_loss import MaskedLMLoss
from bertsmith.model.shape_buckets import fill_up
from bertsmith.training.objective import LossTerm

MAX_EXPONENT = 700.0
"""Largest loss whose perplexity is computed. The loss of a run that has diverged may be larger, and
beyond 709 the perplexity would be no number of 64 bits."""


@dataclass(frozen=True)
class Direction:
    """A direction of reading; `name` is also the name of its loss term."""

    name: str
    step: int
    """Distance from a token to the token that it predicts: 1 or -1."""


DIRECTIONS = (Direction("forward", 1), Direction("backward", -1))
"""The directions, in the order of `Elmo.encode`."""


class BidirectionalLanguageModelling(CorpusObjective[Elmo, Batch]):
    """The objective of an ELMo, with the arguments of `CorpusObjective`."""

    term: ClassVar[str] = "bilm"

    def __init__(self, train: Corpus, held_out: Corpus, max_length: int, **sizes: Any) -> None:
        super().__init__(train, held_out, max_length, **sizes)
        tokenizer = train.tokenizer()
        self._first_id, self._last_id = tokenizer.cls_id, tokenizer.sep_id

    def collate(
        self, rows: Sequence[TextWindow], step_indices: Sequence[int], key: tuple[int, ...]
    ) -> Batch:
        """Pack rows; `targets` has the positions that predict, and the tokens that they predict.

        The entries of `targets` are `forward_positions`, `forward_labels`, `backward_positions` and
        `backward_labels`, each int64 [predictions]. Positions are indices in the packed row.
        """
        ids = [np.concatenate([[self._first_id], row.ids, [self._last_id]]) for row in rows]
        batch = pack(ids).with_step_indices(step_indices)
        # `pack` puts the longest row first: `order` has the row of each packed sequence.
        in_order = [rows[index] for index in batch.order]
        has_start = np.array([row.is_start for row in in_order])
        has_end = np.array([row.is_end for row in in_order])
        positions = predicting_positions(batch.lengths, has_start, has_end)
        targets = {}
        for direction, predicting in zip(DIRECTIONS, positions, strict=True):
            indices = torch.from_numpy(predicting)
            targets[f"{direction.name}_positions"] = indices
            targets[f"{direction.name}_labels"] = batch.input_ids[indices + direction.step]
        return replace(batch, targets=targets)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that each direction predicts."""
        return {direction.name: len(_labels(batch, direction)) for direction in DIRECTIONS}

    def losses(self, model: Elmo, batch: Batch) -> dict[str, LossTerm]:
        """Compute each direction's summed cross entropy, in nats, and count right predictions."""
        terms = {}
        for direction, hidden in zip(DIRECTIONS, model.encode(batch), strict=True):
            labels = _labels(batch, direction)
            predicting = hidden.index_select(0, batch.targets[f"{direction.name}_positions"])
            # The loss is as in masked LM, where tokens could also be sampled (None: they are not).
            # On a CPU `fill_up` appends rows of zeros, so that matrix products have few shapes.
            loss, correct, _ = MaskedLMLoss.apply(  # type: ignore[no-untyped-call]
                fill_up(predicting), model.softmax.weight, model.softmax.bias, labels, None
            )
            weight = 1 / len(DIRECTIONS)  # the total loss is the mean over directions
            terms[direction.name] = LossTerm(loss, correct, len(labels), weight)
        return terms

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute the metrics of each direction and of their mean loss on the eval rows.

        Each direction has loss (nats), accuracy, perplexity, and bits per byte.
        `held_out_perplexity` is the perplexity of the mean loss.

        Args:
            results: the loss terms of each process, which evaluated a part of the rows.
        """
        metrics = super().combine(results)
        if self.held_out is None:
            return metrics
        rows = self.held_out_rows()
        for direction, end_id in zip(DIRECTIONS, (self._last_id, self._first_id), strict=True):
            name = f"held_out_{direction.name}"
            loss = metrics[f"{name}_loss"]
            per_token = predictions_per_token([_labels(row, direction) for row in rows], end_id)
            metrics[f"{name}_perplexity"] = perplexity(loss)
            metrics[f"{name}_bits_per_byte"] = bits_per_byte(loss * per_token, self.held_out.corpus)
        metrics["held_out_perplexity"] = perplexity(metrics["held_out_loss"])
        return metrics


def perplexity(loss: float) -> float:
    """Return e to the power of a loss in nats, or of `MAX_EXPONENT` if the loss is larger.

    >>> round(perplexity(2.0), 3), perplexity(5_000.0) < math.inf
    (7.389, True)
    """
    return math.exp(min(loss, MAX_EXPONENT))


def predicting_positions(
    lengths: Sequence[int], has_start: np.ndarray, has_end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a packed row that predict the next token, and the token before.

    Each sequence begins with `[CLS]` and ends with `[SEP]`. The last token that a direction reads
    predicts nothing.

    Args:
        has_start: bool [sequences], whether `[CLS]` is predicted.
        has_end: bool [sequences], whether `[SEP]` is predicted.

    >>> both = predicting_positions((4, 3), np.array([True, False]), np.array([False, True]))
    >>> [positions.tolist() for positions in both]
    [[0, 1, 4, 5], [1, 2, 3, 6]]
    """
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    starts = ends - lengths
    predicts_next = np.ones(ends[-1], dtype=bool)
    predicts_next[ends - 1] = False  # nothing follows [SEP]
    predicts_next[(ends - 2)[~has_end]] = False
    predicts_previous = np.ones(ends[-1], dtype=bool)
    predicts_previous[starts] = False  # nothing precedes [CLS]
    predicts_previous[(starts + 1)[~has_start]] = False
    return np.flatnonzero(predicts_next), np.flatnonzero(predicts_previous)


def _labels(batch: Batch, direction: Direction) -> Tensor:
    return batch.targets[f"{direction.name}_labels"]
