"""Hooks on modules, to look into a system that has no recorder of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model.attention import AttentionView, RecordWeights

AttentionKey = tuple[int, int]
"""Two numbers that name an attention module: the index of its part (`AttentionPart`), such as the
attention of the encoder, and its layer, from 0."""


class RecordingView:
    """An attention view that passes the weights of another view through `record`.

    A view (`AttentionView`) knows which keys each query sees, and computes attention to them.
    """

    def __init__(self, view: AttentionView, record: RecordWeights) -> None:
        self.view = view
        self.record = record

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_prob: float = 0.0,
        record_weights: RecordWeights | None = None,
    ) -> Tensor:
        """Compute contexts as `AttentionView.attend` does."""
        assert record_weights is None
        return self.view.attend(query, key, value, dropout_prob, self.record)


@contextmanager
def recording_attention(
    modules: Mapping[AttentionKey, nn.Module],
    receive: Callable[[AttentionKey, Tensor], object],
    without: Mapping[AttentionKey, Sequence[int]] | None = None,
) -> Iterator[None]:
    """Pass attention weights, fp32 [heads, queries, keys], to `receive` within the `with` block.

    The system must read one sequence, and each module must be called with a view. The heads of
    `without` add nothing to their layers.
    """
    with ExitStack() as stack:
        for key, module in modules.items():
            disabled = [] if without is None else list(without.get(key, ()))
            hook = _recording_hook(partial(receive, key), disabled)
            stack.callback(module.register_forward_pre_hook(hook).remove)
        yield


def _recording_hook(
    receive: Callable[[Tensor], object], disabled: list[int]
) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """Return a hook that puts a `RecordingView` in place of the view that a module is given."""

    def record(blocks: Sequence[Tensor]) -> list[Tensor]:
        (weights,) = blocks  # one sequence is computed as one block, [1, heads, queries, keys]
        receive(weights[0].detach().float().cpu())
        changed = weights.clone()
        changed[:, disabled] = 0
        return [changed]

    def replace_view(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            RecordingView(argument, record) if hasattr(argument, "attend") else argument
            for argument in args
        )

    return replace_view


@contextmanager
def recording_outputs(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Collect the outputs of modules within the `with` block, in the order of computation."""
    outputs: list[Tensor] = []
    with ExitStack() as stack:
        for module in modules:
            hook = module.register_forward_hook(lambda module, args, out: outputs.append(out))
            stack.callback(hook.remove)
        yield outputs


@contextmanager
def recording_inputs(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the first input of each call of a module within the `with` block."""
    inputs: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        hook.remove()


@contextmanager
def replacing_words(word: nn.Embedding, vectors: Sequence[Tensor]) -> Iterator[None]:
    """Replace the outputs of a word embedding within the `with` block, one for each call."""
    remaining = list(vectors)

    def replace(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        replacement = remaining.pop(0)
        assert replacement.shape == output.shape
        return replacement

    hook = word.register_forward_hook(replace)
    try:
        yield
    finally:
        hook.remove()


def ids_on(ids: Sequence[int], device: torch.device) -> Tensor:
    """Return token ids as int64 [tokens] on a device."""
    return torch.tensor(list(ids), dtype=torch.int64, device=device)
