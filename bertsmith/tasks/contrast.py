"""Losses over the vectors of texts: vectors in, sums over examples out.

They look at cosines alone, so that a vector's length is free. A ranking of scored pairs ("CoSENT")
was tried beside the plain regression of their cosines: on STS-B, a BERT-tiny pre-trained on film
reviews came to a Spearman of 0.697 by the ranking, 0.710 by the regression (two epochs; 0.661 and
0.684 with a third of the learning rate), so only that is here.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(
    anchors: Tensor, candidates: Tensor, right: Tensor, is_excluded: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Each anchor should be nearer to its own text than to those of all others.

    Cross entropy over cosines times `scale`, with the other texts of the batch as negatives
    (Henderson et al. 2017, section 4; van den Oord et al. 2018, "InfoNCE", where 1 / scale is the
    temperature).

    Shapes: `anchors` [anchors, hidden], `candidates` [candidates, hidden], `right` int64 [anchors]
    the place of each one's text among the candidates, `is_excluded` bool [anchors, candidates]
    what must not count as negative. Gives the summed loss and the number of anchors whose own text
    is the nearest.
    """
    cosines = F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    logits = (cosines * scale).masked_fill(is_excluded, -torch.inf)
    return F.cross_entropy(logits, right, reduction="sum"), (logits.argmax(-1) == right).sum()


def cosine_loss(cosines: Tensor, scores: Tensor) -> Tensor:
    """The summed squared difference of cosines and wanted ones, both [pairs] (Reimers & Gurevych
    2019, section 3)."""
    return (cosines - scores).square().sum()
