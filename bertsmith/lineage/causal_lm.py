"""Causal language modelling: each token of a text is predicted from those before it.

Source: Radford et al. 2018, section 3.1. A row is `[CLS]` and the tokens of a window of one
document. If the document ends in the window, `[SEP]` follows. So the model learns where texts end,
and does not take the end of a training row for the end of a text.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from bertsmith.data.batches import Batch, pack
from bertsmith.data.corpus import Corpus
from bertsmith.lineage.corpus_objective import (
    CorpusObjective,
    bits_per_byte,
    predictions_per_token,
)
from bertsmith.lineage.gpt import Gpt
from bertsmith.lineage.recurrent import RecurrentLanguageModel
from bertsmith.lineage.text_windows import TextWindow
from bertsmith.model.masked_lm_loss import MaskedLMLoss
from bertsmith.model.shape_buckets import fill_up
from bertsmith.training.objective import LossTerm

LeftToRight = Gpt | RecurrentLanguageModel
"""A model that reads from left to right."""


class CausalLanguageModelling(CorpusObjective[LeftToRight, Batch]):
    """The objective of a GPT or LSTM, with the arguments of `CorpusObjective`."""

    term: ClassVar[str] = "lm"

    def __init__(self, train: Corpus, held_out: Corpus, max_length: int, **sizes: Any) -> None:
        super().__init__(train, held_out, max_length, **sizes)
        tokenizer = train.tokenizer()
        self._first_id, self._last_id = tokenizer.cls_id, tokenizer.sep_id

    def collate(
        self, rows: Sequence[TextWindow], step_indices: Sequence[int], key: tuple[int, ...]
    ) -> Batch:
        """Pack rows with `positions`, int64 [predictions] in the packed row, and `labels` there.

        Each position predicts the token after it, so the last position of a row predicts nothing.
        """
        ids = []
        for row in rows:
            end = [self._last_id] if row.is_end else []
            ids.append(np.concatenate([[self._first_id], row.ids, end]))
        # `pack` puts the longest row first; the batch gives each the dropout of its index.
        batch = pack(ids).with_step_indices(step_indices)
        is_last = np.zeros(batch.num_tokens, dtype=bool)
        is_last[np.cumsum(batch.lengths) - 1] = True
        positions = np.flatnonzero(~is_last)
        targets = {
            "positions": torch.from_numpy(positions),
            "labels": batch.input_ids[torch.from_numpy(positions + 1)],
        }
        return replace(batch, targets=targets)

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens to predict."""
        return {self.term: len(batch.targets["labels"])}

    def losses(self, model: LeftToRight, batch: Batch) -> dict[str, LossTerm]:
        """Compute the summed cross entropy, in nats, and the number of right predictions."""
        labels = batch.targets["labels"]
        hidden = model.encode(batch).index_select(0, batch.targets["positions"])
        weight = model.word.weight
        # The loss is as in masked LM, but the output layer has no bias, and no tokens are sampled.
        # On a CPU `fill_up` appends rows of zeros, so that matrix products have few shapes.
        loss, correct, _ = MaskedLMLoss.apply(  # type: ignore[no-untyped-call]
            fill_up(hidden), weight, weight.new_zeros(len(weight)), labels, None
        )
        return {self.term: LossTerm(loss, correct, len(labels))}

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute loss (nats), accuracy and bits per byte on the eval rows.

        Args:
            results: the loss terms of each process, which evaluated a part of the rows.
        """
        metrics = super().combine(results)
        if self.held_out is not None:
            labels = [batch.targets["labels"] for batch in self.held_out_rows()]
            per_token = predictions_per_token(labels, self._last_id)
            metrics["held_out_lm_bits_per_byte"] = bits_per_byte(
                metrics["held_out_lm_loss"] * per_token, self.held_out.corpus
            )
        return metrics
