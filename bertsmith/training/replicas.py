"""Copies of a model that compute parts of a step at the same time: batches in, results out.

A small model's products are too small to be shared by several cores: at each of its hundreds of
operations a step, all would wait for the slowest. So each thread takes a batch of its own through
the whole model instead. The copies share the memory of their weights; only gradients are apart.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

import torch
from torch import nn

ModelT = TypeVar("ModelT", bound=nn.Module)
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def share_weights(model: ModelT) -> ModelT:
    """A copy of `model` whose parameters lie in the same memory, with gradients of their own."""
    twins: dict[int, object] = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=weight.requires_grad)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, twins)


class Replicas(Generic[ModelT]):
    """`models[0]` and its copies, each with a thread; use it as a context, which ends them.

    Args:
        models: one model for each part of a step that is computed at the same time. A single one
            is computed in the calling thread, with all of torch's threads.
    """

    def __init__(self, models: Sequence[ModelT]) -> None:
        self.models = models
        self._pool: ThreadPoolExecutor | None = None

    def map(
        self, function: Callable[[ModelT, ItemT], ResultT], items: Sequence[ItemT]
    ) -> list[ResultT]:
        """`function(model, item)` of every item, in order; at most one item per model."""
        if self._pool is None:
            return [function(model, item) for model, item in zip(self.models, items, strict=False)]
        return list(self._pool.map(function, self.models, items))

    def __enter__(self) -> Self:
        if len(self.models) > 1:
            each = max(1, torch.get_num_threads() // len(self.models))
            # torch's number of threads belongs to the calling thread, as OpenMP's does.
            self._pool = ThreadPoolExecutor(
                len(self.models), "replica", torch.set_num_threads, (each,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
