"""Losses over the vectors of texts, by their cosines.

A ranking loss for scored pairs ("CoSENT") was tried beside the regression of their cosines: on
STS-B, a BERT-tiny pre-trained on film reviews reached a Spearman correlation of 0.697 by the
ranking, 0.710 by the regression (two epochs; 0.661 and 0.684 with a third of the learning rate), so
only the latter is here.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(
    anchors: Tensor, candidates: Tensor, right: Tensor, is_excluded: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Compute the contrastive loss with in-batch negatives, summed, and the number correct.

    Cross entropy over cosines times `scale`, with the other texts of the batch as negatives
    (Henderson et al. 2017, section 4; van den Oord et al. 2018, "InfoNCE", where 1 / scale is the
    temperature). An anchor is correct if its own text is the nearest.

    Shapes: `anchors` [anchors, hidden], `candidates` [candidates, hidden]; `right` int64 [anchors],
    the index of each anchor's own text among the candidates; `is_excluded` bool [anchors,
    candidates], true for candidates that are no negatives.
    """
    cosines = F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    logits = (cosines * scale).masked_fill(is_excluded, -torch.inf)
    return F.cross_entropy(logits, right, reduction="sum"), (logits.argmax(-1) == right).sum()


def cosine_loss(cosines: Tensor, scores: Tensor) -> Tensor:
    """Sum squared errors of cosines, both [pairs] (Reimers & Gurevych 2019, section 3)."""
    return (cosines - scores).square().sum()
