"""Weights, gradients and moments of a run, each in one array.

An array can lie in memory shared by processes, be divided among them anywhere, and be updated by
few operations instead of a few for each tensor.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bertsmith.model.heads import TASK_HEADS

CHUNK = 4096
"""Numbers whose squares are summed at once; an array holds whole chunks."""

ALIGNMENT = 64
"""Numbers to which each parameter is aligned, for the processor's vector loads: 128 bytes in bf16.
"""


@dataclass(frozen=True)
class Slot:
    """The place of a parameter in each array: `count` numbers from `first`."""

    name: str
    shape: torch.Size
    first: int

    @property
    def count(self) -> int:
        return self.shape.numel()

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass(frozen=True)
class Layout:
    """The places of all parameters: matrices and embeddings first, then all vectors.

    So weight decay ends at one place. Every bias and LayerNorm weight is a vector and nothing else
    in BERT is, so the number of dimensions tells them apart whatever their names. Padding between
    parameters stays zero.
    """

    slots: tuple[Slot, ...]
    num_decayed: int
    size: int

    @classmethod
    def of(cls, model: nn.Module) -> "Layout":
        """Lay out a model's parameters."""
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim <= 1)
        slots, end, num_decayed = [], 0, 0
        for name, parameter in named:
            slots.append(Slot(name, parameter.shape, end))
            end += _round_up(parameter.numel(), ALIGNMENT)
            if parameter.ndim > 1:
                num_decayed = end
        return cls(tuple(slots), num_decayed, _round_up(end, CHUNK))

    def views(self, array: Tensor) -> dict[str, Tensor]:
        """Return each parameter's view of an array `[size]`, by name."""
        return {slot.name: array[slot.first : slot.end].view(slot.shape) for slot in self.slots}

    @property
    def gaps(self) -> list[slice]:
        """The padding between and after the parameters."""
        ends = [0, *(slot.end for slot in self.slots)]
        starts = [*(slot.first for slot in self.slots), self.size]
        return [slice(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def divide(self, num_parts: int) -> list[tuple[int, int]]:
        """Divide an array into `num_parts` near-equal ranges of whole chunks.

        >>> Layout((), 0, 5 * CHUNK).divide(2) == [(0, 2 * CHUNK), (2 * CHUNK, 5 * CHUNK)]
        True
        """
        num_chunks = self.size // CHUNK
        bounds = [CHUNK * (num_chunks * part // num_parts) for part in range(num_parts + 1)]
        return list(pairwise(bounds))


@dataclass(frozen=True)
class Arrays:
    """All arrays of a run.

    Shapes: `weights`, `exp_avg` and `exp_avg_sq` (AdamW's moments) are fp32 `[size]`; `computing`
    `[size]` has the type that the model computes in, and is `weights` itself in fp32; `gradients`
    is fp32 `[num_parts, size]`; some steps use another type, see `gradients_of`.
    """

    weights: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    gradients: Tensor
    computing: Tensor

    @classmethod
    def of_bytes(cls, memory: Tensor, size: int, num_parts: int, dtype: torch.dtype) -> "Arrays":
        """Place the arrays in `memory`, uint8 of `num_bytes`."""
        rows = memory[: 4 * size * (3 + num_parts)].view(torch.float32).view(-1, size)
        last = memory[4 * size * (3 + num_parts) :].view(dtype)
        return cls(rows[0], rows[1], rows[2], rows[3:], last if len(last) else rows[0])

    def gradients_of(self, num_micro_batches: int) -> Tensor:
        """Return the array for a step's gradients, `[num_parts, size]`.

        It is fp32 for sums. On a CPU, where no part has more than one micro-batch, it has the type
        that the model computes in, and lies in the first half of each part's memory. The other half
        of fresh memory is then never touched and takes no space: 440 MB of BERT-base in two
        processes. Only gradients of task heads, which are fp32 in any case, lose precision by it.
        """
        dtype = self.computing.dtype
        num_parts, size = self.gradients.shape
        if num_micro_batches > num_parts or self.gradients.device.type != "cpu":
            return self.gradients
        return self.gradients.view(dtype)[:, :size]

    @staticmethod
    def num_bytes(size: int, num_parts: int, dtype: torch.dtype) -> int:
        """Compute the size of all arrays in bytes."""
        return 4 * size * (3 + num_parts) + (0 if dtype == torch.float32 else size * dtype.itemsize)


class GradientCollector:
    """Accumulator of gradients in an array, each as soon as computed.

    So no second copy of all gradients ever exists, and sums have the array's type whatever the
    model computes in, until `close`. Parameters that require no gradient get zeros.
    """

    def __init__(self, model: nn.Module, layout: Layout) -> None:
        self._layout = layout
        self._views: dict[str, Tensor] = {}
        self._met: set[str] = set()
        self._handles = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda p, name=name: self._take(name, p)
            )
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]

    def begin(self, array: Tensor) -> None:
        """Direct gradients to `array` `[size]` from now on, replacing its content."""
        for gap in self._layout.gaps:
            array[gap].zero_()
        self._views = self._layout.views(array)
        self._met = set()

    def end(self) -> None:
        """Zero the gradients of parameters that had none."""
        for name in self._views.keys() - self._met:
            self._views[name].zero_()

    def _take(self, name: str, parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        if name in self._met:
            self._views[name].add_(parameter.grad)
        else:
            self._views[name].copy_(parameter.grad)
            self._met.add(name)
        parameter.grad = None

    def close(self) -> None:
        """Remove the hooks: the model keeps its own gradients from now on."""
        for handle in self._handles:
            handle.remove()


def use_arrays(model: nn.Module, layout: Layout, arrays: Arrays) -> None:
    """Make a model's parameters views of the arrays.

    They are views of `computing`; task heads are views of the fp32 weights. A head in bf16 could
    not tell 1997 from 2003, nor give probabilities to three digits, and its products are small.
    """
    computing, exact = layout.views(arrays.computing), layout.views(arrays.weights)
    for name, parameter in model.named_parameters():
        parameter.data = (exact if is_of_task_head(name) else computing)[name]


def is_of_task_head(name: str) -> bool:
    """Return whether a parameter belongs to one of `TASK_HEADS`."""
    return name.startswith(tuple(f"heads.{head}." for head in TASK_HEADS))


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
