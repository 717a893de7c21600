"""The learning-rate schedule (Devlin et al. 2019, appendix A.2) and the updates of weights.

Biases and LayerNorm have no weight decay. Even if the model computes in bf16, the optimizer updates
fp32 weights: an update smaller than 1/256 of a weight would vanish in bf16. All weights are in one
flat array, and so are their gradients; a `Layout` says where each parameter is, in its *slot*. The
array is divided into *parts*, which different processes update.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

import torch
from torch import Tensor

from bertsmith.training.flat_parameters import CHUNK, Arrays, Layout, Slot
from bertsmith.training.settings import OptimSettings
from bertsmith.training.update_rules.adamw import AdamW
from bertsmith.training.update_rules.muon import Muon
from bertsmith.training.update_rules.rule import UpdateRule, UpdateStep, rule_for

UPDATE_BLOCK = 2**19
"""Weights updated at once on a CPU, so few that they stay in its cache from the sum of their
gradients to the bf16 copy; a whole number of chunks."""


def update_rules(settings: OptimSettings) -> tuple[UpdateRule, ...]:
    """Return the rules of a run, such as AdamW; the first that accepts a parameter updates it."""
    adamw = AdamW(settings.adam_beta1, settings.adam_beta2, settings.adam_epsilon)
    if settings.optimizer == "adamw":
        return (*settings.extra_rules(), adamw)
    # The first three kinds of parameters are 3 or 2 matrices one below the other, such as those of
    # query, key and value. Each of these matrices has singular values of its own.
    muon = (Muon("qkv.weight", 3), Muon("key_value.weight", 2), Muon("up_gate.weight", 2), Muon())
    return (*settings.extra_rules(), *muon, adamw)


def buffers_of(settings: OptimSettings) -> tuple[str, ...]:
    """Return the names of the buffers (such as moments) that a run's rules keep for weights."""
    return tuple(dict.fromkeys(name for rule in update_rules(settings) for name in rule.buffers))


def schedule(progress: float, settings: OptimSettings) -> float:
    """Compute the factor of the learning rate, 0 to 1, after a share `progress` of the run.

    Warm-up is linear from 0. The schedule "wsd" (warm-up, stable, decay) ends with a decay of
    1 - sqrt (Hägele et al. 2024, arXiv 2405.18392). "noam" falls with the inverse square root of
    the steps, and is 1 at the end of warm-up (Vaswani et al. 2017, section 5.3).

    >>> settings = OptimSettings(warmup_fraction=0.2)
    >>> [schedule(progress, settings) for progress in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    progress = min(1.0, max(0.0, progress))
    if progress < settings.warmup_fraction:
        return progress / settings.warmup_fraction
    if settings.schedule == "wsd":
        decay_progress = 1 - (1 - progress) / settings.decay_fraction
        return 1 - math.sqrt(max(0.0, decay_progress))
    if settings.schedule == "noam":
        return math.sqrt(settings.warmup_fraction / progress)
    if settings.schedule == "constant":
        return 1.0
    remaining = (1 - progress) / (1 - settings.warmup_fraction)  # 1 after warm-up, 0 at the end
    if settings.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * remaining))
    if settings.schedule == "linear":
        return remaining
    assert_never(settings.schedule)  # mypy refuses a schedule without a formula


@dataclass(frozen=True)
class UpdatePiece:
    """The weights from `first` to before `end`, which one rule updates with one rate and decay.

    `rate` is a factor of the learning rate, `decay` the weight decay. `shape` is set if the rule
    updates whole parameters, as Muon does: the range is then one parameter of this shape.
    """

    first: int
    end: int
    rule: UpdateRule
    rate: float
    decay: float
    shape: torch.Size | None = None

    def continues(self, before: "UpdatePiece") -> bool:
        """Return whether this piece can be joined to the piece before it.

        It can if the two differ only in their range, and are not whole parameters.
        """
        return replace(before, first=self.first, end=self.end) == self and self.shape is None

    def blocks(self, size: int) -> Iterator[slice]:
        """Divide the piece into blocks of at most `size` weights; parameters stay whole."""
        return _blocks(self.first, self.end, size if self.shape is None else self.end - self.first)


def pieces_of(
    layout: Layout, part: int, num_parts: int, settings: OptimSettings
) -> list[UpdatePiece]:
    """Divide the weights of part `part` of `num_parts` into pieces, each updated by one rule.

    Parameters that a rule updates as a whole, as Muon does, are distributed separately from the
    rest, since such an update takes far longer.
    """
    pieces: list[UpdatePiece] = []
    part_first, part_end = layout.divide(num_parts)[part]
    rules = update_rules(settings)
    # The part that updates each parameter of Muon and of similar rules.
    owners = parts_of_parameters(layout, num_parts, settings)
    starts = [slot.first for slot in layout.slots]
    for slot, next_start in zip(layout.slots, [*starts[1:], layout.size], strict=True):
        rule = rule_for(slot.spec, rules)
        rate = settings.rate_scale(slot.spec.name)
        decay = settings.weight_decay if slot.spec.decay else 0.0
        if rule.granularity == "parameter":
            is_in_part = owners[slot] == part
            piece = UpdatePiece(slot.first, slot.end, rule, rate, decay, slot.spec.shape)
        else:
            # The piece includes the padding after the parameter, so that neighbours can be joined.
            first, end = max(slot.first, part_first), min(next_start, part_end)
            piece = UpdatePiece(first, end, rule, rate, decay)
            is_in_part = first < end
        if not is_in_part or rate == 0:  # a rate of 0 means that the parameter is frozen
            continue
        if pieces and pieces[-1].end == piece.first and piece.continues(pieces[-1]):
            piece = replace(piece, first=pieces.pop().first)
        pieces.append(piece)
    return pieces


def parts_of_parameters(layout: Layout, num_parts: int, settings: OptimSettings) -> dict[Slot, int]:
    """Return the part, from 0, of each parameter that its rule updates as a whole.

    These parameters are distributed in order, so that all parts have about equally many weights.
    """
    rules = update_rules(settings)
    slots = [slot for slot in layout.slots if rule_for(slot.spec, rules).granularity == "parameter"]
    total = sum(slot.count for slot in slots)
    parts = {}
    before = 0
    for slot in slots:
        # A parameter belongs to the part in which its middle lies; doubled, to stay in integers.
        twice_the_middle = 2 * before + slot.count
        parts[slot] = twice_the_middle * num_parts // (2 * total)
        before += slot.count
    return parts


class RangeUpdater:
    """Optimizer of part `part`, from 0, of `num_parts` of the weights.

    Parts may be updated by different processes: the result is the same, bit for bit.
    """

    def __init__(
        self, arrays: Arrays, layout: Layout, part: int, num_parts: int, settings: OptimSettings
    ) -> None:
        self.arrays = arrays
        self._bounds = layout.divide(num_parts)[part]
        """The range whose gradients are summed. Parameters that are updated as a whole may lie
        elsewhere, so `_pieces` may be outside this range."""
        self._pieces = pieces_of(layout, part, num_parts, settings)
        self._block_size = UPDATE_BLOCK if arrays.weights.device.type == "cpu" else layout.size

    def sum_gradients(self, gradients: Tensor) -> Tensor:
        """Sum the gradients of all shares, `[num_shares, size]`, in this part's range.

        In fp32 the sum replaces the first row. In bf16 it would lose precision there, so the rows
        stay as they are and `update` sums them again.

        Returns:
            The sum of the squares of each chunk of the range, fp32 `[chunks]`. They are kept apart
            so that their total is the same for any number of parts.
        """
        first, end = self._bounds
        norms = self.arrays.weights.new_empty((end - first) // CHUNK)
        for block in _blocks(first, end, self._block_size):
            total = gradients[0, block].float()  # no copy if it is fp32: summed in place
            for gradient in gradients[1:]:
                total += gradient[block]
            chunk_norms = norms[(block.start - first) // CHUNK : (block.stop - first) // CHUNK]
            torch.linalg.vector_norm(total.view(-1, CHUNK), dim=1, out=chunk_norms)
        return norms.square_()

    def update(self, gradients: Tensor, step: int, rate: float, divisor: float) -> None:
        """Update the weights of this part by their summed gradients, divided by `divisor`.

        Args:
            gradients: `[num_shares, size]`, fp32 or bf16, after `sum_gradients`.
            step: counts from 1.
            rate: learning rate of the step, which each parameter's factor scales.
        """
        # Filled on the device, since a copy from the CPU would make this process wait.
        scale = self.arrays.weights.new_full((), divisor)
        for piece in self._pieces:
            change = UpdateStep(step, rate * piece.rate, piece.decay, scale)
            for block in piece.blocks(self._block_size):
                total = gradients[0, block].float()
                if gradients.dtype != torch.float32:  # `sum_gradients` did not store the sum
                    for gradient in gradients[1:]:
                        total += gradient[block]
                self._update_block(piece, block, total, change)

    def _update_block(
        self, piece: UpdatePiece, block: slice, gradient: Tensor, change: UpdateStep
    ) -> None:
        arrays = self.arrays
        shape = piece.shape or gradient.shape
        buffers = {name: arrays.buffers[name][block].view(shape) for name in piece.rule.buffers}
        piece.rule.step(arrays.weights[block].view(shape), gradient.view(shape), buffers, change)
        if arrays.compute_weights is not arrays.weights:
            arrays.compute_weights[block].copy_(arrays.weights[block])


def _blocks(first: int, end: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, end)) for start in range(first, end, size))
