"""Masked-LM loss in bounded memory, with tokens sampled from the same logits.

Logits of a whole vocabulary take most of a step's memory. So they are computed for a chunk of
positions at a time, and each chunk's gradient at once, in the forward pass. The sampled tokens are
those with which ELECTRA's generator replaces masked ones. The distillation loss is here, too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.model.row_maximum import row_maximum

MAX_LOGITS = 2**24
"""Logits held at once by the masked-LM loss: 64 MB in fp32, 549 positions of 30,522 tokens."""

MAX_GPU_LOGITS = 2**27
"""Logits held at once on a GPU, where smaller products leave cores idle: 256 MB in bf16, or 4,397
positions of 30,522 tokens.
"""

CACHED_BYTES = 2**20
"""Bytes of logits whose softmax is computed at once on a CPU: they stay in its cache."""
SAMPLED_BLOCK = 128
"""Number of tokens in each block of `sample_tokens`."""


def token_log_probs(hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """Compute the log-probability of each position's label, fp32 [positions].

    It is meant for use without gradients, which would keep all logits in memory. Shapes: `hidden`
    [positions, size], `weight` [vocabulary, size], `bias` [vocabulary], `labels` int64 [positions],
    at least one position. `hidden` may have further rows, which are ignored. At most `MAX_LOGITS`
    logits exist at a time (`MAX_GPU_LOGITS` on a GPU).
    """
    log_probs = []
    for rows in _chunks(hidden, weight):
        targets = labels[rows]
        logits = F.linear(hidden[rows], weight, bias)[: len(targets)].float()
        log_probs.append(-F.cross_entropy(logits, targets, reduction="none"))
    return torch.cat(log_probs)


class MaskedLMLoss(torch.autograd.Function):
    """Summed cross entropy of `hidden @ weight.T + bias`, number correct, and sampled tokens.

    Shapes: `hidden` [positions, hidden], `weight` [vocabulary, hidden], `bias` [vocabulary],
    `labels` int64 of at most [positions]: rows of `hidden` beyond the labels are ignored. Loss and
    number correct are fp32 scalars. With `draws`, fp32 in [0, 1) of the shape of `labels`, each
    position's token is sampled as in `sample_tokens`.

    No more than `MAX_LOGITS` logits (`MAX_GPU_LOGITS` on a GPU) exist at a time: a chunk's
    gradients are computed together with its logits, in the forward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        draws: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        samples = torch.empty_like(labels if draws is not None else labels[:0])

        def compute_loss(logits: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            targets = labels[rows]
            logits[len(targets) :] = 0.0  # rows beyond the labels get no gradient
            sample = None if draws is None else (draws[rows], samples[rows])
            return _cross_entropy_and_gradient(logits[: len(targets)], targets, sample)

        loss_sum, num_correct = _decode_in_chunks(ctx, hidden, weight, bias, compute_loss)
        ctx.mark_non_differentiable(num_correct, samples)
        return loss_sum, num_correct, samples

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grad_outputs[0]), None, None)


def _decode_in_chunks(
    ctx: Any,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    compute_loss: Callable[[Tensor, slice], tuple[Tensor, Tensor]],
    num_arrays: int = 1,
) -> tuple[Tensor, Tensor]:
    """Compute logits, a loss over the vocabulary and all gradients, chunk by chunk.

    `compute_loss` gets logits `[rows, vocabulary]` and their slice of rows. It returns the summed
    loss and the number of correct predictions, and overwrites the logits with their gradient. The
    gradients of `hidden`, `weight` and `bias` are kept for `_scaled_gradients`. `num_arrays` is
    that of `_chunks`.
    """
    loss_sum = torch.zeros((), device=hidden.device)
    num_correct = torch.zeros((), device=hidden.device)
    grad_hidden = torch.zeros_like(hidden)
    grad_weight = grad_bias = None
    for rows in _chunks(hidden, weight, num_arrays):
        logits = F.linear(hidden[rows], weight, bias)
        loss, correct = compute_loss(logits, rows)
        loss_sum += loss
        num_correct += correct
        gradient = logits  # overwritten by `compute_loss`
        vectors = hidden[rows].to(logits.dtype)
        grad_hidden[rows] = gradient @ weight.to(logits.dtype)
        grad_weight = _accumulate(grad_weight, gradient.T @ vectors)
        # A product with ones is a sum over rows, and three times as fast as torch's own.
        grad_bias = _accumulate(grad_bias, (gradient.new_ones(1, len(vectors)) @ gradient)[0])
    ctx.gradients = (grad_hidden, grad_weight, grad_bias)
    ctx.dtypes = (hidden.dtype, weight.dtype, bias.dtype)
    ctx.mark_non_differentiable(num_correct)
    return loss_sum, num_correct


def _scaled_gradients(ctx: Any, scale: Tensor) -> list[Tensor | None]:
    """Return the gradients that `_decode_in_chunks` kept, times `scale`; this works only once.

    `scale` is the gradient of the loss itself, a scalar.
    """
    if ctx.gradients is None:
        raise RuntimeError("a loss over the vocabulary keeps its gradients for one backward pass")
    scaled = [
        None if gradient is None else gradient.mul_(scale).to(dtype)
        for gradient, dtype in zip(ctx.gradients, ctx.dtypes, strict=True)
    ]
    ctx.gradients = None  # scaled in place, which spares a copy of [vocab, hidden]
    return scaled


def _accumulate(total: Tensor | None, part: Tensor) -> Tensor:
    """Add a chunk's gradient to the sum of earlier chunks, in fp32; None is an empty sum."""
    return part if total is None else total.float().add_(part)


def _chunks(hidden: Tensor, weight: Tensor, num_arrays: int = 1) -> list[slice]:
    """Divide the rows of `hidden` into slices of about equal size.

    A slice has as many rows as its logits over the vocabulary, the rows of `weight`, may fill.
    `num_arrays` is the number of arrays of logits that exist at a time for a slice, such as 2 for
    those of a student and its teacher.
    """
    num_rows = len(hidden)
    if num_rows == 0:
        return []
    max_logits = (MAX_GPU_LOGITS if hidden.is_cuda else MAX_LOGITS) // num_arrays
    max_rows = max(1, max_logits // len(weight))
    num_chunks = math.ceil(num_rows / max_rows)
    size = math.ceil(num_rows / num_chunks)
    return [slice(first, first + size) for first in range(0, num_rows, size)]


def _cross_entropy_and_gradient(
    logits: Tensor, labels: Tensor, sample: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Compute summed loss and number correct in fp32; `logits` becomes the gradient.

    Shapes: `logits` [positions, classes], `labels` int64 [positions]. Softmax is computed in fp32
    for any dtype of `logits` and rounded to that dtype once. A CPU takes so few positions at a time
    that their probabilities are still in its cache when tokens are sampled from them. `sample`
    holds the draws, and the array that receives the sampled tokens.
    """
    size = max(1, len(logits))
    if logits.device.type == "cpu":
        size = max(1, CACHED_BYTES // (logits.shape[-1] * logits.element_size()))
    loss_sum = torch.zeros((), device=logits.device)
    num_correct = torch.zeros((), device=logits.device)
    for first in range(0, len(logits), size):
        rows = slice(first, first + size)
        part, targets = logits[rows], labels[rows]
        highest, guess = row_maximum(part)
        num_correct += (guess[:, 0] == targets).sum()
        distance = highest.float() - part.gather(-1, targets[:, None]).float()
        torch.softmax(part, -1, out=part)
        if sample is not None:
            draws, samples = sample
            samples[rows] = sample_tokens(part, draws[rows])
        # The highest probability is 1 / sum(exp(logits - highest)), never near zero.
        loss_sum += (distance - part.gather(-1, guess).float().log()).sum()
        # The gradient of cross entropy is the probabilities, less 1 at the label.
        indices = torch.arange(len(targets), device=part.device), targets
        part.index_put_(indices, part[indices] - 1)
    return loss_sum, num_correct


def sample_tokens(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Sample the token at which the cumulative probability passes each draw, int64 `[positions]`.

    Shapes: `probabilities` `[positions, vocabulary]`, `draws` fp32 `[positions]` in [0, 1). A
    position's token depends on its probabilities and draw alone, not on the device or on how
    positions are divided. First the sums of blocks of `SAMPLED_BLOCK` tokens give the block of the
    token, then only that block is searched: summing token by token would take several times as
    long.
    """
    vocab_size = probabilities.shape[-1]
    num_blocks = vocab_size // SAMPLED_BLOCK  # and the tokens that remain are a last, shorter one
    in_blocks = probabilities[:, : num_blocks * SAMPLED_BLOCK]
    in_blocks = in_blocks.reshape(len(in_blocks), num_blocks, SAMPLED_BLOCK)
    block_sums = in_blocks.sum(-1, dtype=torch.float32)
    rest = probabilities[:, num_blocks * SAMPLED_BLOCK :].sum(-1, keepdim=True, dtype=torch.float32)
    sums_to_end = torch.cat([block_sums, rest], -1).cumsum(-1)
    thresholds = draws * sums_to_end[:, -1]
    block = _first_above(sums_to_end, thresholds)[:, None]
    sum_before = sums_to_end.gather(-1, (block - 1).clamp(min=0)) * (block > 0)
    ids = block * SAMPLED_BLOCK + torch.arange(SAMPLED_BLOCK, device=block.device)
    # In a shorter block, ids beyond the vocabulary have the probability 0.
    inside = probabilities.gather(-1, ids.clamp(max=vocab_size - 1)).float() * (ids < vocab_size)
    column = _first_above(inside.cumsum(-1), thresholds - sum_before[:, 0])
    return block[:, 0] * SAMPLED_BLOCK + column


def _first_above(sums: Tensor, thresholds: Tensor) -> Tensor:
    """Find the index of the first of rising `sums` `[rows, count]` above `thresholds` `[rows]`.

    If rounding leaves no sum above a threshold, the first of the highest sums is taken.
    """
    # A threshold is at most the number just below the last sum, so that this sum is above it.
    highest = sums[:, -1].nextafter(sums.new_zeros(()))
    return (sums <= torch.minimum(thresholds.clamp(min=0), highest)[:, None]).sum(-1)


@dataclass(frozen=True)
class LogitFactors:
    """The factors of vocabulary logits, `hidden @ weight.T + bias`.

    Shapes: `hidden` [positions, size], `weight` [vocabulary, size], `bias` [vocabulary], in one
    floating dtype.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor


def soft_lm_loss(
    student: LogitFactors, teacher: LogitFactors, count: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute KL(teacher || student) at `temperature`, times temperature², and the agreement.

    The logits of both models are computed here from their factors, a chunk at a time.

    Both results are fp32 scalars, summed over the first `count` positions; the agreement is the
    number of equal predictions. Only the student gets gradients (Hinton et al. 2015, section 2;
    Sanh et al. 2019, section 2).
    """
    loss, num_alike = _SoftLMLoss.apply(  # type: ignore[no-untyped-call]
        student.hidden, student.weight, student.bias, teacher, count, temperature
    )
    return loss, num_alike


class _SoftLMLoss(torch.autograd.Function):
    """Autograd function of `soft_lm_loss`; gradients are computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        teacher: LogitFactors,
        count: int,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        def compute_loss(logits: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            num_real = max(0, min(count - rows.start, len(logits)))
            logits[num_real:] = 0.0
            vectors = teacher.hidden[rows][:num_real]
            teacher_logits = F.linear(vectors, teacher.weight, teacher.bias)
            return divergence_and_gradient(logits[:num_real], teacher_logits, temperature)

        # Two arrays of logits: the student's and the teacher's.
        return _decode_in_chunks(ctx, hidden, weight, bias, compute_loss, num_arrays=2)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grad_outputs[0]), None, None, None)


def divergence_and_gradient(
    logits: Tensor, teacher_logits: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute summed divergence and number of equal predictions in fp32.

    `logits` becomes the gradient, in place. Shapes: both [positions, classes], of any floating
    type. Probabilities are computed in fp32; on a CPU, for so few positions at a time that they
    stay in its cache.
    """
    size = max(1, len(logits))
    if logits.device.type == "cpu":
        size = max(1, CACHED_BYTES // (logits.shape[-1] * torch.float32.itemsize))
    loss = torch.zeros((), device=logits.device)
    num_alike = torch.zeros((), device=logits.device)
    parts = zip(torch.split(logits, size), torch.split(teacher_logits, size), strict=True)
    for part, teacher_part in parts:
        (_, teacher_guess), (_, guess) = row_maximum(teacher_part), row_maximum(part)
        num_alike += (teacher_guess == guess).sum()
        teacher_log_probs = F.log_softmax(teacher_part.float() / temperature, -1)
        log_probs = F.log_softmax(part.float() / temperature, -1)
        teacher_probs = teacher_log_probs.exp()
        loss += temperature**2 * (teacher_probs * (teacher_log_probs - log_probs)).sum()
        # The derivative of temperature² · KL by a logit: logits are divided by the temperature.
        part.copy_(temperature * (log_probs.exp() - teacher_probs))
    return loss, num_alike
