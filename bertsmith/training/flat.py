"""A run's numbers for every weight, each kind in one array: weights, gradients, moments.

One array of a kind can lie in memory that several processes share, and be divided among them
anywhere; and an update is a few operations instead of a few for each of dozens of tensors.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bertsmith.model.heads import TASK_HEADS

CHUNK = 4096
"""Numbers whose squares are summed at once; an array holds whole chunks."""

ALIGNMENT = 64
"""Numbers to which a parameter's first is aligned: 128 bytes in bf16, as the processor likes."""


@dataclass(frozen=True)
class Slot:
    """Where a parameter stands in each array: `count` numbers from `first`."""

    name: str
    shape: torch.Size
    first: int

    @property
    def count(self) -> int:
        """How many numbers the parameter has."""
        return self.shape.numel()

    @property
    def end(self) -> int:
        """The place after its last number."""
        return self.first + self.count


@dataclass(frozen=True)
class Layout:
    """Matrices and embeddings first, then all vectors, so that weight decay ends at one place.

    Every bias and every LayerNorm weight is a vector and nothing else in BERT is, so the number of
    dimensions tells them apart whatever their names. Numbers between two parameters stay zero.
    """

    slots: tuple[Slot, ...]
    num_decayed: int
    size: int

    @classmethod
    def of(cls, model: nn.Module) -> "Layout":
        """The layout of a model's parameters."""
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim <= 1)
        slots, end, num_decayed = [], 0, 0
        for name, parameter in named:
            slots.append(Slot(name, parameter.shape, end))
            end += _round_up(parameter.numel(), ALIGNMENT)
            if parameter.ndim > 1:
                num_decayed = end
        return cls(tuple(slots), num_decayed, _round_up(end, CHUNK))

    def views(self, array: Tensor) -> dict[str, Tensor]:
        """Each parameter's part of an array `[size]`, by name and in the parameter's shape."""
        return {slot.name: array[slot.first : slot.end].view(slot.shape) for slot in self.slots}

    @property
    def gaps(self) -> list[slice]:
        """What lies between and behind the parameters."""
        ends = [0, *(slot.end for slot in self.slots)]
        starts = [*(slot.first for slot in self.slots), self.size]
        return [slice(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def divide(self, num_parts: int) -> list[tuple[int, int]]:
        """`num_parts` ranges of whole chunks that cover an array, as equal as can be.

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
    is fp32 `[num_parts, size]`, but for steps that keep them otherwise; see `gradients_of`.
    """

    weights: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    gradients: Tensor
    computing: Tensor

    @classmethod
    def of_bytes(cls, memory: Tensor, size: int, num_parts: int, dtype: torch.dtype) -> "Arrays":
        """The arrays in `memory`, uint8 of `num_bytes`."""
        rows = memory[: 4 * size * (3 + num_parts)].view(torch.float32).view(-1, size)
        last = memory[4 * size * (3 + num_parts) :].view(dtype)
        return cls(rows[0], rows[1], rows[2], rows[3:], last if len(last) else rows[0])

    def gradients_of(self, num_micro_batches: int) -> Tensor:
        """Where a step's gradients go, `[num_parts, size]`: sums in fp32, or on a CPU, where no
        part has more than one micro-batch, what the model gave, in the type it computes in.

        The latter lies in the first half of each part's memory. Of fresh memory the other half is
        never touched, so it takes no room: 440 MB of base in two processes. The heads of tasks
        alone, which are fp32 in any case, lose digits of their gradients by it.
        """
        dtype = self.computing.dtype
        num_parts, size = self.gradients.shape
        if num_micro_batches > num_parts or self.gradients.device.type != "cpu":
            return self.gradients
        return self.gradients.view(dtype)[:, :size]

    @staticmethod
    def num_bytes(size: int, num_parts: int, dtype: torch.dtype) -> int:
        """Memory that the arrays take."""
        return 4 * size * (3 + num_parts) + (0 if dtype == torch.float32 else size * dtype.itemsize)


class GradientCollector:
    """Adds a model's gradients up in an array, each as soon as a backward pass has it.

    So no second copy of all gradients ever exists, and sums are in the array's type whatever the
    model computes in, until `close`. Parameters that require no gradient have zeros.
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
        """From now on gradients go to `array` `[size]`; what it held is replaced."""
        for gap in self._layout.gaps:
            array[gap].zero_()
        self._views = self._layout.views(array)
        self._met = set()

    def end(self) -> None:
        """Parameters that had no gradient have zeros."""
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
        """From now on the model keeps its own gradients."""
        for handle in self._handles:
            handle.remove()


def use_arrays(model: nn.Module, layout: Layout, arrays: Arrays) -> None:
    """Let a model's parameters be views: of what is computed with, and for the heads of tasks of
    the fp32 weights themselves.

    A head in bf16 could not tell 1997 from 2003, nor say how sure it is to three digits; what it
    multiplies is little.
    """
    computing, exact = layout.views(arrays.computing), layout.views(arrays.weights)
    for name, parameter in model.named_parameters():
        parameter.data = (exact if is_of_task_head(name) else computing)[name]


def is_of_task_head(name: str) -> bool:
    """Whether a parameter belongs to the head of a task; see `TASK_HEADS`."""
    return name.startswith(tuple(f"heads.{head}." for head in TASK_HEADS))


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
