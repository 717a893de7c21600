"""Weights, gradients and the optimizer's buffers (moments) of a run, each in one flat array.

The processes of a run share the memory of the arrays, and divide each array among them in chunks.
An array is also updated by a few operations, where separate tensors would need a few operations
each. The model's parameters are views of such an array, and their gradients are moved into another.
A *share* is a part of a step: some of its micro-batches, which one process computes. A *rank* is
one of the machines or GPUs that train together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bertsmith.model.trainable import ParameterSpec

CHUNK = 4096
"""Numbers in a chunk. An array is a whole number of chunks. The norm of the gradients is computed
from one sum of squares per chunk, so it is rounded alike however the array is divided."""

ALIGNMENT = 64
"""Each parameter begins at a multiple of this, 128 bytes in bf16, for the processor's vector loads.
"""


@dataclass(frozen=True)
class Slot:
    """The position of a parameter in each array: `count` numbers from `first` to before `end`.

    `spec` has the parameter's name and shape, and says whether it has weight decay.
    """

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
        """Place parameters so that `num_ranks` ranks can divide the array into equal ranges."""
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
        """Divide an array into `num_parts` near-equal ranges (first, end) of whole chunks.

        >>> Layout((), 5 * CHUNK).divide(2) == [(0, 2 * CHUNK), (2 * CHUNK, 5 * CHUNK)]
        True
        """
        num_chunks = self.size // CHUNK
        bounds = [CHUNK * (num_chunks * part // num_parts) for part in range(num_parts + 1)]
        return list(pairwise(bounds))


@dataclass(frozen=True)
class Arrays:
    """All arrays of a run.

    Shapes: `weights` and the optimizer's `buffers` are fp32 `[size]`; `gradients` is fp32
    `[num_shares, size]`, a row for each share. Some steps use the memory of `gradients` in another
    type, see `gradients_of`.
    """

    weights: Tensor
    buffers: Mapping[str, Tensor]
    gradients: Tensor
    compute_weights: Tensor
    """Copy of the weights `[size]` in the type that the model computes in; in fp32 it is `weights`
    itself."""

    def gradients_of(self, num_micro_batches: int) -> Tensor:
        """Return the array for the gradients of a step, `[num_shares, size]`.

        A share with several micro-batches sums their gradients, in fp32. On a CPU, if no share has
        more than one micro-batch, there is nothing to sum, and the array has the type that the
        model computes in. In bf16 this array takes the first half of each share's memory. The other
        half is never touched and so takes no space, which saves 440 MB for BERT-base in two
        processes. Only the gradients of parameters that stay fp32 (`ParameterSpec.fp32_only`) lose
        precision by that.

        Args:
            num_micro_batches: the number of micro-batches of the step, which are dealt to the
                shares in turn.
        """
        num_shares, size = self.gradients.shape
        has_share_with_several = num_micro_batches > num_shares
        if has_share_with_several or self.gradients.device.type != "cpu":
            return self.gradients
        return self.gradients.view(self.compute_weights.dtype)[:, :size]


@dataclass(frozen=True)
class Storage:
    """The sizes of a run's arrays, with a row of gradients for each of `num_shares`.

    `size` is the number of numbers of an array (`Layout.size`), `dtype` the type that the model
    computes in, and `buffers` are the names of the optimizer's buffers.
    """

    size: int
    num_shares: int
    dtype: torch.dtype
    buffers: tuple[str, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays: those in fp32, and the copy of the weights if it is in bf16."""
        copy_bytes = 0 if self.dtype == torch.float32 else self.size * self.dtype.itemsize
        return 4 * self.size * self._num_rows + copy_bytes

    @property
    def _num_rows(self) -> int:
        """The number of fp32 rows `[size]`: weights, buffers, and gradients of each share."""
        return 1 + len(self.buffers) + self.num_shares

    def arrays_in(self, memory: Tensor) -> Arrays:
        """Return the arrays in `memory`, uint8 `[num_bytes]`, as views of it."""
        end = 4 * self.size * self._num_rows
        rows = memory[:end].view(torch.float32).view(self._num_rows, self.size)
        copy = memory[end:].view(self.dtype)
        first_gradient = 1 + len(self.buffers)
        return Arrays(
            weights=rows[0],
            buffers=dict(zip(self.buffers, rows[1:first_gradient], strict=True)),
            gradients=rows[first_gradient:],
            # In fp32 there is no copy: the model computes with the weights themselves.
            compute_weights=copy if len(copy) else rows[0],
        )


@dataclass(frozen=True)
class _Target:
    """Views of an array of gradients: of each parameter by name, and of the gaps between them."""

    views: Mapping[str, Tensor]
    gaps: Sequence[Tensor]


class GradientCollector:
    """Moves each gradient into an array as soon as it is computed, until `close`.

    So there is never a second copy of all gradients, and sums over micro-batches have the array's
    type, whatever type the model computes in. Parameters that require no gradient get zeros. Call
    `begin` before the first backward pass of a step, and `end` after the last one.
    """

    def __init__(self, model: nn.Module, layout: Layout) -> None:
        self._layout = layout
        self._targets: dict[tuple[int, torch.dtype], _Target] = {}
        """The views of each array that `begin` was called with, by the array's address and type.
        They are kept because making them takes as long as a small layer's forward pass, and the
        steps of a run use a few arrays again and again."""
        self._views: Mapping[str, Tensor] = {}
        """The view of each parameter in the array of this step, by name."""
        self._collected: set[str] = set()
        """Names of the parameters whose gradients have been computed in this step."""
        self._handles = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda updated, name=name: self._take(name, updated)
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
        """Move a parameter's gradient into the array; add it to one of an earlier micro-batch."""
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

    The parameters' values are lost: from now on they are those of the arrays.
    """
    computing, fp32 = layout.views(arrays.compute_weights), layout.views(arrays.weights)
    parameters = dict(model.named_parameters())
    for slot in layout.slots:
        name = slot.spec.name
        parameters[name].data = (fp32 if slot.spec.fp32_only else computing)[name]


def _round_up(count: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `count`."""
    return (count + multiple - 1) // multiple * multiple
