"""Weights, gradients and the optimizer's buffers of a run, each in one array.

An array can be in memory that processes share, can be divided among them at any chunk, and is
updated by a few operations instead of a few for each tensor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bertsmith.model.trainable import ParameterSpec

CHUNK = 4096
"""Numbers in a chunk, whose squares are summed together. An array is a whole number of chunks."""

ALIGNMENT = 64
"""Each parameter begins at a multiple of this, 128 bytes in bf16, for the processor's vector loads.
"""


@dataclass(frozen=True)
class Slot:
    """The position of a parameter in each array: `count` numbers from `first`."""

    spec: ParameterSpec
    first: int

    @property
    def count(self) -> int:
        return self.spec.shape.numel()

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass(frozen=True)
class Layout:
    """The positions of all parameters in an array of `size` numbers.

    Parameters with weight decay come first, so that they form one range. Padding between parameters
    stays zero.
    """

    slots: tuple[Slot, ...]
    size: int

    @classmethod
    def of(cls, specs: Iterable[ParameterSpec], num_ranks: int = 1) -> "Layout":
        """Lay out parameters so that `num_ranks` ranks can divide the array into equal ranges."""
        slots = []
        end = 0
        for spec in sorted(specs, key=lambda spec: not spec.decay):
            slots.append(Slot(spec, end))
            end += _round_up(slots[-1].count, ALIGNMENT)
        return cls(tuple(slots), _round_up(end, CHUNK * num_ranks))

    def views(self, array: Tensor) -> dict[str, Tensor]:
        """Return each parameter's view of an array `[size]`, by name.

        Views have the parameters' shapes and the array's dtype.
        """
        return {
            slot.spec.name: array[slot.first : slot.end].view(slot.spec.shape)
            for slot in self.slots
        }

    @property
    def gaps(self) -> list[slice]:
        """The padding between and after the parameters."""
        ends = [0, *(slot.end for slot in self.slots)]
        starts = [*(slot.first for slot in self.slots), self.size]
        return [slice(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def divide(self, num_parts: int) -> list[tuple[int, int]]:
        """Divide an array into `num_parts` near-equal ranges of whole chunks.

        >>> Layout((), 5 * CHUNK).divide(2) == [(0, 2 * CHUNK), (2 * CHUNK, 5 * CHUNK)]
        True
        """
        chunks = self.size // CHUNK
        return list(pairwise(CHUNK * (chunks * part // num_parts) for part in range(num_parts + 1)))


@dataclass(frozen=True)
class Arrays:
    """All arrays of a run.

    Shapes: `weights` and the optimizer's `buffers` are fp32 `[size]`; `gradients` is fp32
    `[num_shares, size]`, but some steps use another type, see `gradients_of`.
    """

    weights: Tensor
    buffers: Mapping[str, Tensor]
    gradients: Tensor
    compute_weights: Tensor
    """Copy of the weights `[size]` in the type that the model computes in; in fp32 it is `weights`
    itself."""

    def gradients_of(self, num_micro_batches: int) -> Tensor:
        """Return the array for a step's gradients, `[num_shares, size]`.

        Sums need fp32. But on a CPU, if each share has at most one micro-batch, the array has the
        type that the model computes in. In bf16 it takes the first half of each share's memory;
        the other half is never touched and so takes no space, which saves 440 MB for BERT-base in
        two processes. Only gradients of `fp32_only` parameters lose precision by that.
        """
        dtype = self.compute_weights.dtype
        num_shares, size = self.gradients.shape
        if num_micro_batches > num_shares or self.gradients.device.type != "cpu":
            return self.gradients
        return self.gradients.view(dtype)[:, :size]


@dataclass(frozen=True)
class Storage:
    """The sizes of a run's arrays, with gradients for each of `num_shares`.

    `dtype` is the type that the model computes in; `buffers` are the names of the optimizer's.
    """

    size: int
    num_shares: int
    dtype: torch.dtype
    buffers: tuple[str, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays: those in fp32, and the copy of the weights in bf16."""
        copy = 0 if self.dtype == torch.float32 else self.size * self.dtype.itemsize
        return 4 * self.size * (1 + len(self.buffers) + self.num_shares) + copy

    def arrays_in(self, memory: Tensor) -> Arrays:
        """Return the arrays in `memory`, uint8 `[num_bytes]`, as views of it."""
        num_rows = 1 + len(self.buffers) + self.num_shares
        rows = memory[: 4 * self.size * num_rows].view(torch.float32).view(num_rows, self.size)
        copy = memory[4 * self.size * num_rows :].view(self.dtype)
        buffers = dict(zip(self.buffers, rows[1:], strict=False))
        return Arrays(rows[0], buffers, rows[1 + len(buffers) :], copy if len(copy) else rows[0])


@dataclass(frozen=True)
class _Target:
    """Views of an array that gradients are written to: the parameters' and the gaps'."""

    views: Mapping[str, Tensor]
    gaps: Sequence[Tensor]


class GradientCollector:
    """Moves each gradient into an array as soon as it is computed, until `close`.

    So there is never a second copy of all gradients, and sums have the array's type, whatever type
    the model computes in. Parameters that require no gradient get zeros.
    """

    def __init__(self, model: nn.Module, layout: Layout) -> None:
        self._layout = layout
        self._targets: dict[tuple[int, torch.dtype], _Target] = {}
        """What was made of each array so far, by its address and type: it takes as long as a small
        layer's forward pass, and each step begins with the same arrays."""
        self._views: Mapping[str, Tensor] = {}
        self._collected: set[str] = set()
        self._handles = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda p, name=name: self._take(name, p)
            )
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]

    def begin(self, array: Tensor) -> None:
        """From now on write gradients to `array` `[size]`, in its dtype; replace its content."""
        key = array.data_ptr(), array.dtype
        if key not in self._targets:
            gaps = [array[gap] for gap in self._layout.gaps]
            self._targets[key] = _Target(self._layout.views(array), gaps)
        target = self._targets[key]
        for gap in target.gaps:  # an array of another type may have written to this memory
            gap.zero_()
        self._views = target.views
        self._collected = set()

    def end(self) -> None:
        """Set the gradients of parameters that got none to zero."""
        for name in self._views.keys() - self._collected:
            self._views[name].zero_()

    def _take(self, name: str, parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        if name in self._collected:
            self._views[name].add_(parameter.grad)
        else:
            self._views[name].copy_(parameter.grad)
            self._collected.add(name)
        parameter.grad = None

    def close(self) -> None:
        """Remove the hooks; from now on the model keeps its own gradients."""
        for handle in self._handles:
            handle.remove()


def use_arrays(model: nn.Module, layout: Layout, arrays: Arrays) -> None:
    """Make a model's parameters views of `compute_weights`; if `fp32_only`, of `weights`.

    Their previous values are lost; they have those of the arrays.
    """
    computing, fp32 = layout.views(arrays.compute_weights), layout.views(arrays.weights)
    parameters = dict(model.named_parameters())
    for slot in layout.slots:
        name = slot.spec.name
        parameters[name].data = (fp32 if slot.spec.fp32_only else computing)[name]


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
