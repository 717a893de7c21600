"""Masked-LM evaluation on rows that are identical for all models.

A run's own eval rows follow its recipe: one segment or two, its own masks. The common rows depend
on the corpus alone, with 15 % of the tokens masked as in the paper (80 % [MASK], 10 % replaced, 10
% left). Models are ranked by rows of a single segment. Models trained on sentence pairs score
higher on paired rows, so both are reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bertsmith.data.batches import Batch
from bertsmith.data.shards import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.pretraining.objective import (
    EVALUATION_TOKENS,
    HELD_OUT_STREAM,
    RowSource,
    pretraining_losses,
)
from bertsmith.pretraining.settings import PairTask, PretrainingSettings

SEED = 0


@dataclass(frozen=True)
class CommonEvaluation:
    """Masked-LM evaluation on `num_rows` eval rows of at most `max_length` tokens.

    Rows have one segment, or two if `paired`.
    """

    held_out: Corpus
    max_length: int
    num_rows: int
    paired: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether the corpus has such rows: pairs take two documents."""
        return self.held_out.num_documents > self.paired

    def __call__(self, model: BertModel) -> dict[str, float]:
        """Compute `loss` (nats) and `accuracy` over the masked tokens.

        Empty for a model without a masked-LM head.
        """
        if not self.is_usable or "masked_lm" not in model.heads:
            return {}
        device = model.device
        loss, correct, count = 0.0, 0.0, 0
        for batch in self._batches:
            term = pretraining_losses(model, batch.to(device), "none")["mlm"]
            loss += term.sum.item()
            correct += term.correct.item()
            count += term.count
        return {"loss": loss / count, "accuracy": correct / count}

    @cached_property
    def _batches(self) -> list[Batch]:
        return list(self._draw())

    def _draw(self) -> Iterator[Batch]:
        pairs: PairTask = "next_sentence" if self.paired else "none"
        settings = PretrainingSettings(max_length=self.max_length, pairs=pairs)
        rows = RowSource(self.held_out, settings, SEED)
        rng = np.random.default_rng([SEED, HELD_OUT_STREAM])
        rows_each = max(1, EVALUATION_TOKENS // self.max_length)
        segments = rows.draw(0, self.num_rows, rng)
        yield from rows.batches(segments, settings.masking_rule(), rng, rows_each)
