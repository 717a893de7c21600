"""Distillation loss over the vocabulary, in bounded memory.

Like the masked-LM loss, it holds at most `MAX_LOGITS` logits of student and teacher together: a
chunk's gradients are computed together with its logits.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.model.masked_lm_loss import (
    CACHED_BYTES,
    MAX_GPU_LOGITS,
    MAX_LOGITS,
    decode_in_chunks,
    scaled_gradients,
)
from bertsmith.model.row_maximum import row_maximum


@dataclass(frozen=True)
class Guesses:
    """The factors of logits over the vocabulary, `hidden @ weight.T + bias`.

    Shapes: `hidden` [positions, hidden], `weight` [vocabulary, hidden], `bias` [vocabulary].
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor


def soft_lm_loss(
    student: Guesses, teacher: Guesses, count: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute KL(teacher || student) at `temperature`, times its square, and the agreement.

    Both results are fp32 scalars, summed over the first `count` positions; the second counts equal
    predictions. Gradients are the student's alone (Hinton et al. 2015, section 2; Sanh et al. 2019,
    section 2).
    """
    loss, num_alike = SoftLMLoss.apply(  # type: ignore[no-untyped-call]
        student.hidden, student.weight, student.bias, teacher, count, temperature
    )
    return loss, num_alike


class SoftLMLoss(torch.autograd.Function):
    """Autograd function of `soft_lm_loss`, with gradients computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        teacher: Guesses,
        count: int,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        def take(logits: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            real = max(0, min(count - rows.start, len(logits)))
            logits[real:] = 0.0
            taught = F.linear(teacher.hidden[rows][:real], teacher.weight, teacher.bias)
            return divergence_and_gradient(logits[:real], taught, temperature)

        max_logits = (MAX_GPU_LOGITS if hidden.is_cuda else MAX_LOGITS) // 2
        return decode_in_chunks(ctx, hidden, weight, bias, take, max_logits)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grad_outputs[0]), None, None, None)


def divergence_and_gradient(
    logits: Tensor, taught: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute summed divergence and number of equal predictions in fp32.

    `logits` becomes the gradient, in place. Shapes: both [positions, classes], of any floating
    type; probabilities are computed in fp32, on a CPU for so few positions at a time that they stay
    in its cache.
    """
    size = max(1, len(logits))
    if logits.device.type == "cpu":
        size = max(1, CACHED_BYTES // (logits.shape[-1] * 4))
    loss = torch.zeros((), device=logits.device)
    num_alike = torch.zeros((), device=logits.device)
    for part, wanted in zip(torch.split(logits, size), torch.split(taught, size), strict=True):
        num_alike += (row_maximum(wanted)[1] == row_maximum(part)[1]).sum()
        of_teacher = F.log_softmax(wanted.float() / temperature, -1)
        of_student = F.log_softmax(part.float() / temperature, -1)
        probabilities = of_teacher.exp()
        loss += temperature**2 * (probabilities * (of_teacher - of_student)).sum()
        part.copy_(temperature * (of_student.exp() - probabilities))
    return loss, num_alike
