"""Queries and keys of attention heads; the softmax of their products gives the weights."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bertsmith.model.attention import AttentionView, RecordWeights


@dataclass(frozen=True, eq=False)
class HeadVectors:
    """Queries and keys of the heads of a layer.

    `queries`, fp32 [heads, rows, head_size], are divided by the root of the head size. So their
    products with `keys`, fp32 [heads, columns, head_size], are the attention scores, before the
    softmax.
    """

    queries: Tensor
    keys: Tensor


@dataclass(frozen=True, eq=False)
class VectorCall:
    """A call of an attention module, with the arguments of `AttentionView.attend`."""

    module: nn.Module
    query: Tensor
    key: Tensor

    def vectors(self, num_rows: int, num_columns: int) -> HeadVectors:
        """Return the vectors of the tokens: the first `num_rows` queries and `num_columns` keys.

        The rows of the call that follow these are padding.
        """
        query = self.query[:num_rows].detach().float().cpu().transpose(0, 1)
        key = self.key[:num_columns].detach().float().cpu().transpose(0, 1)
        return HeadVectors(query * query.shape[-1] ** -0.5, key)


class WatchedView:
    """An attention view that keeps the queries and keys of its calls in `calls`.

    A view (`AttentionView`) knows which keys each query sees, and computes attention to them.
    """

    def __init__(self, view: AttentionView, module: nn.Module, calls: list[VectorCall]) -> None:
        self.view = view
        self.module = module
        self.calls = calls

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute contexts as `AttentionView.attend` does."""
        self.calls.append(VectorCall(self.module, query, key))
        return self.view.attend(query, key, value, dropout_prob, record_weights)


@contextmanager
def recording_vectors(modules: Iterable[nn.Module]) -> Iterator[list[VectorCall]]:
    """Collect the calls of attention modules within the `with` block, in the order of computation.

    Layers may share a module, which is then called once for each of them.
    """
    calls: list[VectorCall] = []

    def watch(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Replace the view, the only argument of a call that has a method `attend`."""
        return tuple(
            WatchedView(argument, module, calls) if hasattr(argument, "attend") else argument
            for argument in args
        )

    with ExitStack() as stack:
        for module in set(modules):
            stack.callback(module.register_forward_pre_hook(watch).remove)
        yield calls
