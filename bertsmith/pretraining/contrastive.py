"""Contrastive pairs: the two halves of a text must have similar vectors.

Each half is a row, and its vector is the mean of its tokens' vectors. The vector must be nearer to
that of the other half of its text than to those of all other rows of the micro-batch (InfoNCE: van
den Oord et al. 2018; with spans of a document as pairs: Giorgi et al. 2021, "DeCLUTR", section 3).
Rows 2i and 2i + 1 are a pair. They are built around an *anchor*, a token position in the corpus. A
document of one sentence gives no pair: its rows have the label `IGNORE_INDEX`. The loss needs no
weights of its own, so the model is saved as a plain masked LM.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import mean_over_sequences
from bertsmith.pretraining.pair_task import PairTask, TextLengths
from bertsmith.pretraining.segments import Segments, halves_around
from bertsmith.pretraining.token_counts import IdArray
from bertsmith.training.objective import LossTerm

TEMPERATURE = 0.05
"""Divisor of cosines before the softmax, as in DeCLUTR and SimCSE."""
WEIGHT = 0.1
"""Weight of the contrastive loss; the masked-LM loss has weight 1. With weight 1 for both, a tiny
model took longer to learn more than token frequencies: after 350 steps its masked-LM loss was 6.2
nats, and 5.4 with next sentence prediction in place of contrastive pairs."""

MIN_COMPARED = 4
"""Fewest rows of a micro-batch that are compared: with two, the partner is the only choice."""


class ContrastivePairs(PairTask):
    """Which of the other rows is the other half of a row's text?"""

    rows_per_anchor = 2
    min_rows = MIN_COMPARED
    compares_rows = True

    def check_batch_size(self, batch_size: int) -> None:
        if batch_size % 2:
            raise ConfigError(
                f"{option('training.batch_size')}: found {batch_size} with pairs 'contrastive', "
                f"where two rows are a pair. Pass an even number as {option('batch_size')}."
            )

    def check_micro_batch_size(self, micro_batch_size: int) -> None:
        if micro_batch_size < MIN_COMPARED:
            raise ConfigError(
                f"{option('training.micro_batch_size')}: found {micro_batch_size} with pairs "
                f"'contrastive', where a row is compared with others. Pass {MIN_COMPARED} or more "
                f"as {option('batch_size')} and {option('micro_batch_size')}."
            )

    def draw(
        self,
        corpus: Corpus,
        anchors: np.ndarray,
        lengths: TextLengths,
        short_seq_prob: float,
        rng: np.random.Generator,
    ) -> Segments:
        """Return two rows for each anchor, the halves of the text around it; see `PairTask.draw`.

        Nothing is drawn and no row is shortened, so `short_seq_prob` and `rng` are not read.
        """
        return halves_around(corpus, anchors, lengths.one_segment)

    def targets(self, labels: IdArray, batch: Batch) -> dict[str, Tensor]:
        """Find the position in the batch of every row's partner, the other half of its text.

        Returns:
            `contrastive_rows`, the positions of rows that have a partner, and
            `contrastive_labels`, the positions of their partners; both int64 `[rows with a
            partner]`.
        """
        order = np.asarray(batch.order)  # the number of the row at each position of the batch
        position_of_row = np.argsort(order)
        positions = np.flatnonzero(labels != IGNORE_INDEX)
        partners = order[positions] ^ 1  # row 2i + 1 for row 2i, and the other way round
        return {
            "contrastive_rows": torch.from_numpy(positions),
            "contrastive_labels": torch.from_numpy(position_of_row[partners]),
        }

    def loss(self, model: BertModel, hidden: Tensor, batch: Batch) -> LossTerm:
        """Compute the loss of choosing each row's partner among all other rows of the batch.

        The loss is InfoNCE (van den Oord et al. 2018, section 2.3) with cosines divided by
        `TEMPERATURE`, summed over the rows with a partner.

        Args:
            hidden: the last layer's vectors, `[tokens, hidden]`.
        """
        vectors = F.normalize(mean_over_sequences(hidden, batch).float(), dim=-1)
        rows = batch.targets["contrastive_rows"]
        partners = batch.targets["contrastive_labels"]
        is_self = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
        similarity = (vectors @ vectors.T / TEMPERATURE).masked_fill(is_self, -torch.inf)
        logits = similarity.index_select(0, rows)
        loss = F.cross_entropy(logits, partners, reduction="sum")
        correct = (logits.argmax(-1) == partners).sum()
        return LossTerm(loss, correct, len(rows), WEIGHT)
