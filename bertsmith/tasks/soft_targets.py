"""Distillation losses between the outputs of a student and its teacher.

Losses of labels are those of soft targets with a temperature (Hinton et al. 2015, section 2):
logits are divided by the temperature, and the KL divergence of the resulting probabilities is
multiplied by the square of the temperature, so that gradients have the same size at any
temperature.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def soft_class_loss(
    logits: Tensor, teacher_logits: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute KL(teacher || student) over the classes, summed over rows, and the agreement.

    The loss is an fp32 scalar (Hinton et al. 2015, section 2). The second result counts the rows in
    which student and teacher have the same likeliest class. Shapes: `logits` and `teacher_logits`
    fp32 `[n, classes]`; a class whose logits are minus infinity in both is ignored.
    """
    teacher_log_probs = F.log_softmax(teacher_logits / temperature, -1)
    log_probs = F.log_softmax(logits / temperature, -1)
    difference = teacher_log_probs - log_probs
    # Minus infinity less minus infinity is NaN.
    difference = difference.masked_fill(teacher_log_probs == -torch.inf, 0.0)
    loss = temperature**2 * (teacher_log_probs.exp() * difference).sum()
    return loss, (logits.argmax(-1) == teacher_logits.argmax(-1)).sum()


def soft_binary_loss(
    logits: Tensor, teacher_logits: Tensor, temperature: float, threshold: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute the multi-label KL divergence, averaged over labels and summed over rows.

    The second result counts the rows in which student and teacher decide alike on all labels. A
    label is present if its logit is at least `threshold`. Shapes: `logits` and `teacher_logits`
    fp32 `[n, labels]`.
    """
    soft_teacher_logits = teacher_logits / temperature
    targets = soft_teacher_logits.sigmoid()
    soft_logits = logits / temperature
    # KL divergence = cross entropy of the student - entropy of the teacher
    cross_entropy = F.binary_cross_entropy_with_logits(soft_logits, targets, reduction="none")
    entropy = F.binary_cross_entropy_with_logits(soft_teacher_logits, targets, reduction="none")
    agrees = ((logits >= threshold) == (teacher_logits >= threshold)).all(1)
    return temperature**2 * (cross_entropy - entropy).mean(1).sum(), agrees.sum()


def soft_vector_loss(
    vectors: Tensor, teacher_vectors: Tensor, close: float
) -> tuple[Tensor, Tensor]:
    """Sum 1 - cosine of student and teacher vectors (Sanh et al. 2019, section 2), in fp32.

    The second result counts vectors that agree: those with a cosine of at least 1 - `close`.
    Shapes: `vectors` and `teacher_vectors` `[n, hidden]`.
    """
    cosines = F.cosine_similarity(vectors.float(), teacher_vectors.float(), dim=-1)
    return (1 - cosines).sum(), (cosines >= 1 - close).sum()
