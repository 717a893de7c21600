"""Contrastive pairs: two segments of one document against all others of a micro-batch.

The vector of a segment is the mean of its tokens' vectors. It is trained to be nearer to the vector
of the other half of its text than to those of all other rows (InfoNCE: van den Oord et al. 2018;
with
segments of a text as pairs: Giorgi et al. 2021, "DeCLUTR", section 3). Rows 2i and 2i + 1 are a
pair. The loss needs no weights of its own, so the model is saved as a plain masked LM.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.model.layers import mean_over_sequences
from bertsmith.training.objective import LossTerm

TEMPERATURE = 0.05
WEIGHT = 0.1
"""Weight of the loss beside that of masked LM. With weight 1, a tiny model took longer to learn
more than token frequencies: after 350 steps its masked-LM loss was 6.2 nats, and with next sentence
prediction instead 5.4."""

MIN_COMPARED = 4
"""Fewest rows of a micro-batch that are compared: with two, the partner is the only choice."""


def contrastive_targets(labels: NDArray[np.int64], batch: Batch) -> dict[str, Tensor]:
    """Find, for every row in the batch's order, the place of its partner.

    Args:
        labels: IGNORE_INDEX for rows without a partner, int64 `[rows]`, in the batch's order.

    Returns:
        `contrastive_rows`, the places of rows that have one, and `contrastive_labels`, their
            partners'
        places; both int64, of one length.
    """
    order = np.asarray(batch.order)
    place_of_row = np.argsort(order)
    rows = np.flatnonzero(labels != IGNORE_INDEX)
    return {
        "contrastive_rows": torch.from_numpy(rows),
        "contrastive_labels": torch.from_numpy(place_of_row[order[rows] ^ 1]),
    }


def segment_pair_loss(hidden: Tensor, batch: Batch) -> LossTerm:
    """Compute the loss of choosing the partner among all other rows, from [tokens, hidden].

    It is the summed InfoNCE (van den Oord et al. 2018, section 2.3) of cosines divided by
    `TEMPERATURE`, an fp32 scalar, over rows with a partner. `batch.targets` are those of
    `contrastive_targets`.
    """
    vectors = F.normalize(mean_over_sequences(hidden, batch).float(), dim=-1)
    rows = batch.targets["contrastive_rows"]
    partners = batch.targets["contrastive_labels"]
    likeness = vectors @ vectors.T / TEMPERATURE
    likeness = likeness.masked_fill(
        torch.eye(len(vectors), dtype=torch.bool, device=vectors.device), -torch.inf
    ).index_select(0, rows)
    loss = F.cross_entropy(likeness, partners, reduction="sum")
    return LossTerm(loss, (likeness.argmax(-1) == partners).sum(), len(rows), WEIGHT)
