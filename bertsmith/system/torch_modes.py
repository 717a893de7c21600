"""Isolation of bertsmith from the caller's torch modes and random numbers, and vice versa.

Callers may load, train and predict under `torch.inference_mode`, in autocast, with another default
dtype or device, and in several threads at once.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bertsmith.system.forks import ForkSafeLock

RANDOM_FUNCTIONS = frozenset(
    {
        torch.rand,
        torch.randn,
        torch.randint,
        torch.randperm,
        torch.normal,
        torch.bernoulli,
        torch.multinomial,
        Tensor.normal_,
        Tensor.uniform_,
        Tensor.bernoulli_,
        Tensor.random_,
        Tensor.exponential_,
        Tensor.multinomial,
        Tensor.bernoulli,
    }
)
"""Functions that draw from torch's global generator unless they get another one."""

_default_types: list[torch.dtype] = []
"""The caller's default dtype, then an entry for each open block."""
_changing_type = ForkSafeLock()
"""Held while the default dtype is changed."""


@contextlib.contextmanager
def usual_modes() -> Iterator[None]:
    """Compute in the block by default on the CPU, in fp32, with gradients and without autocast.

    All of these settings except the default dtype belong to this thread.
    """
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.is_autocast_enabled("cuda"):
            stack.enter_context(torch.autocast("cuda", enabled=False))
        if _default_types or torch.get_default_dtype() != torch.float32:
            stack.enter_context(_default_float32())
        yield


@contextlib.contextmanager
def _default_float32() -> Iterator[None]:
    """Make fp32 the default dtype; it is process-wide, so the last block to end restores it."""
    with _changing_type:
        if not _default_types:
            _default_types.append(torch.get_default_dtype())
        _default_types.append(torch.float32)
        torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        with _changing_type:
            _default_types.pop()
            if len(_default_types) == 1:
                torch.set_default_dtype(_default_types.pop())


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Draw initial weights and other random numbers of the block from a separate generator.

    The numbers are those after `torch.manual_seed(seed)`, but the global generator does not change,
    so that the caller and other threads are not affected.
    """
    with _Drawing(torch.Generator("cpu").manual_seed(seed)):
        yield


class _Drawing(TorchFunctionMode):
    """Passes this generator to random functions."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        # Some functions of torch.nn.init also get here. They name `generator` even if it is None.
        is_random = func in RANDOM_FUNCTIONS or "generator" in named
        if is_random and named.get("generator") is None:
            named["generator"] = self.generator
        return func(*args, **named)
