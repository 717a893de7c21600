"""What a student should say when its teacher is asked: logits of both in, a summed loss out.

Soft targets with a temperature (Hinton et al. 2015, section 2): the divergence of the student's
probabilities from the teacher's, both of logits divided by the temperature, times its square, so
that gradients keep their size whatever the temperature is.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def soft_class_loss(logits: Tensor, taught: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """KL(teacher || student) of one class among several, summed, and how often both choose alike.

    Shapes: `logits` and `taught` fp32 `[n, classes]`; what is minus infinity in both is no class.
    """
    wanted = F.log_softmax(taught / temperature, -1)
    found = F.log_softmax(logits / temperature, -1)
    difference = (wanted - found).masked_fill(wanted == -torch.inf, 0.0)
    loss = temperature**2 * (wanted.exp() * difference).sum()
    return loss, (logits.argmax(-1) == taught.argmax(-1)).sum()


def soft_binary_loss(
    logits: Tensor, taught: Tensor, temperature: float, border: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The same where each label is a decision of its own: the mean over labels, summed over rows.

    Shapes: both fp32 `[n, labels]`. Rows count as alike where all decisions are the same; a label
    is given from the logit `border` on.
    """
    soft = taught / temperature
    wanted = soft.sigmoid()
    crossed, least = (
        F.binary_cross_entropy_with_logits(each, wanted, reduction="none")
        for each in (logits / temperature, soft)
    )
    alike = ((logits >= border) == (taught >= border)).all(1)
    return temperature**2 * (crossed - least).mean(1).sum(), alike.sum()


def soft_vector_loss(vectors: Tensor, taught: Tensor, close: float) -> tuple[Tensor, Tensor]:
    """1 - cosine of each student's vector and its teacher's, summed (Sanh et al. 2019, section 2).

    Shapes: both `[n, hidden]`. Cosines of at least 1 - `close` count as right.
    """
    cosines = F.cosine_similarity(vectors.float(), taught.float(), dim=-1)
    return (1 - cosines).sum(), (cosines >= 1 - close).sum()
