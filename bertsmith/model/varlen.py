"""Attention over a whole packed row by one CUDA kernel, for sequences of any lengths.

torch has the kernel since 2.10 as `varlen_attn`, whose keyword arguments differ between versions,
so only positional ones are given. That function has no dropout; the operator that it calls has
dropout, and gradients with it. A trial finds out whether the kernel runs on this machine, is
correct, and is faster than attention by blocks, that is, on padded arrays of sequences of similar
length. All names with *varlen* (variable length) are about this kernel.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bertsmith.system.measurements import gpu_key, remember

MAX_HEAD_SIZE = 128
"""The kernels take heads of up to 256 numbers, but above 128 some cards lack the backward pass."""

MAX_ERROR = 1e-2
"""Largest relative error of bf16 results and gradients. Attention by blocks has an error of 2e-3 to
3.3e-3 on a CPU; a wrong computation has about 1."""

MIN_GAIN = 1.1
"""Least speed of the kernel, relative to blocks, at which it is chosen. Noise does not decide."""

TRIAL_LENGTHS = (512, 256, 128, 32)
VARLEN_TRIAL_ROWS = 8
"""Sequences of each length. Attention by blocks needs no padding for them, so the comparison
favours it."""
TRIAL_HEADS = 12
TRIAL_HEAD_SIZE = 64
TRIAL_DROPOUT = 0.1

SHOWN_ERROR_CHARACTERS = 100


@dataclass(frozen=True)
class Bounds:
    """Bounds of sequences in a packed row: `starts[i]` to `starts[i + 1]`.

    `starts` is int32 [sequences + 1] on the row's device, `longest` the most tokens of a sequence.
    """

    starts: Tensor
    longest: int


@dataclass(frozen=True)
class VarlenTrial:
    """The result of trying the kernel: seconds of forward and backward pass, with it and by blocks.

    `error` is the largest relative error of its result and gradients. `has_dropout` is whether it
    can drop attention weights. If it cannot be used at all, `problem` says why.
    """

    varlen_seconds: float = 0.0
    blocks_seconds: float = 0.0
    error: float = 0.0
    has_dropout: bool = False
    problem: str | None = None

    def __str__(self) -> str:
        # Shown in brackets behind the way that was chosen, such as "attention by blocks (...)".
        if self.problem is not None:
            return f"not of the whole row: {self.problem}"
        whole, blocks = 1e3 * self.varlen_seconds, 1e3 * self.blocks_seconds
        limit = "" if self.has_dropout else "; by blocks where it has dropout"
        times = f"measured here: whole row {whole:.2f} ms, by blocks {blocks:.2f}"
        return f"{times}, relative error {self.error:.1e}{limit}"

    @property
    def pays(self) -> bool:
        """Whether the kernel is correct, and clearly faster than blocks."""
        is_right = self.problem is None and self.error <= MAX_ERROR
        return is_right and MIN_GAIN * self.varlen_seconds < self.blocks_seconds


def fits(query: Tensor) -> bool:
    """Return whether the kernel supports the device, dtype and head size of `query`.

    `query` is [tokens, heads, head_size]. The kernel needs CUDA, bf16 or fp16, and heads of a
    multiple of 8 numbers, of `MAX_HEAD_SIZE` at most.
    """
    head_size = query.shape[-1]
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    return query.is_cuda and is_half and head_size % 8 == 0 and head_size <= MAX_HEAD_SIZE


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Bounds,
    keys: Bounds,
    dropout_prob: float = 0.0,
) -> Tensor:
    """Compute softmax(QK^T / sqrt(d)) V per sequence, [queries, heads, head_size].

    Shapes: `query` [queries, heads, head_size], `key` and `value` [tokens, heads, head_size], all
    bf16 or fp16 on a GPU; they may be views of one array.
    """
    bounds = (queries.starts, keys.starts, queries.longest, keys.longest)
    if dropout_prob:
        forward = torch.ops.aten._flash_attention_forward
        # Arguments after the probability: not causal, no dropout mask returned. Of the results, the
        # first are the contexts.
        return forward(query, key, value, *bounds, dropout_prob, False, False)[0]
    from torch.nn.attention.varlen import varlen_attn  # older versions of torch lack it

    return varlen_attn(query, key, value, *bounds)  # type: ignore[return-value]


def varlen_pays(device: torch.device, with_dropout: bool) -> bool:
    """Return whether attention over the whole row is correct on a GPU, and faster than blocks."""
    trial = varlen_trial(device)
    return trial.pays and (trial.has_dropout or not with_dropout)


@lru_cache
def varlen_trial(device: torch.device) -> VarlenTrial:
    """Try a GPU's kernel, unless the result for this GPU and version of torch is stored.

    `remember` stores it in a file of measurements of this machine.

    A failure is not stored: the GPU may have lacked memory only this time.
    """
    if device.type != "cuda" or not torch.cuda.is_available():
        return VarlenTrial(problem="there is no CUDA device")
    try:
        return remember(
            f"{gpu_key(device)} | attention", partial(try_varlen, device), VarlenTrial
        ).value
    # torch lacks the kernel, the card lacks it, or memory is short: use blocks in each case.
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return VarlenTrial(problem=reason[:SHOWN_ERROR_CHARACTERS])


def try_varlen(device: torch.device) -> VarlenTrial:
    """Compare the kernel with exact attention and time it, within a second.

    Modes and random state of the caller are preserved.
    """
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        return _run_trial(device)


def _run_trial(device: torch.device) -> VarlenTrial:
    """Compare and time the kernel on random sequences of `TRIAL_LENGTHS`; fp32 is the reference."""
    lengths = [length for length in TRIAL_LENGTHS for _ in range(VARLEN_TRIAL_ROWS)]
    generator = torch.Generator().manual_seed(0)
    shape = (sum(lengths), 3, TRIAL_HEADS, TRIAL_HEAD_SIZE)
    qkv = torch.randn(shape, generator=generator).to(device, torch.bfloat16).requires_grad_()
    gradient = torch.randn(shape[0], *shape[2:], generator=generator).to(device, torch.bfloat16)
    starts = torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32)
    bounds = Bounds(starts, max(lengths))

    def whole(x: Tensor) -> Tensor:
        query, key, value = x.unbind(1)
        return varlen_attention(query, key, value, bounds, bounds)

    result = _outcome(whole, qkv, gradient)
    exact_qkv = qkv.detach().float().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        expected = _outcome(in_blocks, exact_qkv, gradient.float())
    return VarlenTrial(
        varlen_seconds=_seconds(lambda: _outcome(whole, qkv, gradient), device),
        blocks_seconds=_seconds(lambda: _outcome(in_blocks, qkv, gradient), device),
        error=max(_distance(*pair) for pair in zip(result, expected, strict=True)),
        has_dropout=_has_dropout(qkv, gradient, bounds),
    )


def in_blocks(qkv: Tensor) -> Tensor:
    """Compute attention for the trial's sequences by torch's fused kernel, length by length.

    `qkv`, [tokens, 3, heads, head_size], are their queries, keys and values.
    """
    parts = torch.split(qkv, [VARLEN_TRIAL_ROWS * length for length in TRIAL_LENGTHS])
    contexts = []
    for part, length in zip(parts, TRIAL_LENGTHS, strict=True):
        heads = part.view(-1, length, *part.shape[1:]).permute(2, 0, 3, 1, 4)
        contexts.append(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(0, 1))
    return torch.cat(contexts)


def _outcome(attend: Callable[[Tensor], Tensor], qkv: Tensor, gradient: Tensor) -> Sequence[Tensor]:
    """Return the context vectors, and the gradients of query, key and value.

    `attend` computes the contexts of `qkv`; `gradient` is the gradient of a loss by the contexts.
    """
    context = attend(qkv)
    (qkv_gradient,) = torch.autograd.grad(context, qkv, gradient)
    return (context.detach(), *qkv_gradient.unbind(1))


def _distance(result: Tensor, exact: Tensor) -> float:
    """Return the relative error of a result; 1 if the result is not finite."""
    distance = (result.float() - exact).norm() / exact.norm()
    return float(distance) if torch.isfinite(distance) else 1.0


def _has_dropout(qkv: Tensor, gradient: Tensor, bounds: Bounds) -> bool:
    """Return whether the kernel's dropout works.

    With dropout, averages of values that are all 1 must vary around 1, and gradients be finite.
    """
    query, key, value = qkv.unbind(1)
    ones = torch.ones_like(value)
    try:
        context = varlen_attention(query, key, ones, bounds, bounds, TRIAL_DROPOUT)
        (qkv_gradient,) = torch.autograd.grad(context, qkv, gradient)
    except (AttributeError, TypeError, RuntimeError):
        return False
    context, qkv_gradient = context.detach().float(), qkv_gradient.float()
    is_near_one = abs(float(context.mean()) - 1) < 0.01
    varies = float(context.std()) > 0.001
    return is_near_one and varies and bool(torch.isfinite(qkv_gradient).all())


def _seconds(run: Callable[[], object], device: torch.device, calls: int = 10) -> float:
    """Return the time of a call: the shortest of five means over `calls` calls."""
    times = []
    for _ in range(5):
        _wait(device)
        start = time.perf_counter()
        for _ in range(calls):
            run()
        _wait(device)
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
