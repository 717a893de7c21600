"""Masked-LM evaluation on rows that are identical for all models.

A run's own eval rows have one segment or two, and masks as its recipe says, so their metrics cannot
be compared between recipes. The common rows are the same for all models: 15 % of their tokens are
masked as in the BERT paper (80 % [MASK], 10 % replaced, 10 % left). Models are ranked by common
rows of a single segment. Rows of two segments are reported as well, since models trained on pairs
of segments score higher on them.
"""

from dataclasses import dataclass
from functools import cached_property

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.pretraining.objective import held_out_figures, pretraining_losses
from bertsmith.pretraining.row_source import RowSource
from bertsmith.pretraining.settings import PretrainingSettings

SEED = 0
"""Seed of the rows and of their masks."""


@dataclass(frozen=True)
class CommonEvaluation:
    """Masked-LM evaluation on `num_rows` eval rows of at most `max_length` tokens.

    Rows have one segment, or two if `paired`.
    """

    held_out: Corpus
    max_length: int
    num_rows: int
    paired: bool = False

    def __call__(self, model: BertModel) -> dict[str, float]:
        """Compute `loss` (nats) and `accuracy` over the masked tokens.

        The result is empty for a model without a masked-LM head, or if there are too few documents.
        """
        min_documents = 2 if self.paired else 1
        if self.held_out.num_documents < min_documents or "masked_lm" not in model.heads:
            return {}
        # "none": without the loss of a pair task such as NSP, even in rows of two segments
        metrics = held_out_figures(
            pretraining_losses(model, batch.to(model.device), "none") for batch in self._batches
        )
        return {name: metrics[f"held_out_mlm_{name}"] for name in ("loss", "accuracy")}

    @cached_property
    def _batches(self) -> list[Batch]:
        # Rows for next sentence prediction have two segments. The masks are BERT's by default.
        pairs = "next_sentence" if self.paired else "none"
        settings = PretrainingSettings(max_length=self.max_length, pairs=pairs)
        rows = RowSource(self.held_out, settings, seed=SEED)
        return rows.evaluation_batches(self.num_rows, seed=SEED)
