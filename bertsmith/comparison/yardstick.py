"""A pre-trained model → how well it guesses hidden words in rows that are the same for every model.

A run's own held-out rows are of the kind that it learns from: of one segment or two, with its own
masks. Those of the yardstick depend on the corpus alone: its rows, and 15 % of their pieces hidden
as in the paper (80 % behind [MASK], 10 % replaced, 10 % left). Rows of a single segment are what
the models are ranked by. Since who has learnt from pairs is more at home in pairs, rows of two
segments are measured too; the difference is seen where it counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bertsmith.data.batches import Batch
from bertsmith.data.shards import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.tasks.pretraining import (
    EVALUATION_TOKENS,
    HELD_OUT_STREAM,
    RowSource,
    pretraining_losses,
)
from bertsmith.tasks.pretraining_settings import PairTask, PretrainingSettings

SEED = 0


@dataclass(frozen=True)
class Yardstick:
    """`num_rows` held-out rows of at most `max_length` tokens, of one segment or two."""

    held_out: Corpus
    max_length: int
    num_rows: int
    paired: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether there are such rows: pairs take two documents."""
        return self.held_out.num_documents > self.paired

    def __call__(self, model: BertModel) -> dict[str, float]:
        """`loss` (nats) and `accuracy` over the hidden pieces; nothing of a model that does not
        guess words."""
        if not self.is_usable or "masked_lm" not in model.heads:
            return {}
        device = model.embeddings.word.weight.device
        loss, correct, count = 0.0, 0.0, 0
        for batch in self._batches:
            term = pretraining_losses(model, batch.to(device), "none")["mlm"]
            loss += term.sum.item()
            correct += term.correct.item()
            count += term.count
        return {"loss": loss / count, "accuracy": correct / count}

    def __getstate__(self) -> dict[str, object]:
        """Without the rows, which any process can draw anew."""
        return {name: value for name, value in vars(self).items() if name != "_batches"}

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
