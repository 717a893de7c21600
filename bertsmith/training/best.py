"""The weights that did best on held-out data: entries go in, the best of all weights come out.

The copy is part of every checkpoint, so that a run that is stopped and continued still has it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PREFIX = "best/"


@dataclass(frozen=True)
class BestSettings:
    """By which held-out figure weights are chosen, and how long to wait for better ones."""

    figure: str
    """A name in the journal's held-out lines; larger is better."""
    patience: int | None = None
    """End the run after this many evaluations without a better figure, or as good a one and a lower
    loss; None never does."""
    from_start: bool = False
    """Whether the weights at the start are measured and may be the best: not those of a task with a
    head, which as a rule is new and says nothing."""


class BestWeights:
    """Keeps a copy of a model's weights from its best evaluation.

    Of equal figures the one with the lower held-out loss counts.
    """

    def __init__(self, settings: BestSettings) -> None:
        self.settings = settings
        self.step = 0
        self._score = (-math.inf, -math.inf)
        self._num_since = 0
        self._weights: dict[str, Tensor] = {}

    @property
    def is_exhausted(self) -> bool:
        """Whether `patience` evaluations in a row have brought nothing better."""
        return self.settings.patience is not None and self._num_since >= self.settings.patience

    @property
    def score(self) -> float:
        """The figure of the best evaluation."""
        return self._score[0]

    def see(self, entry: Mapping[str, Any]) -> None:
        """Take in a held-out entry; `step` becomes its step if it is the best so far."""
        if entry["step"] == 0 and not self.settings.from_start:
            return
        score = (entry[self.settings.figure], -entry["held_out_loss"])
        is_better = score > self._score
        self._num_since = 0 if is_better else self._num_since + 1
        if is_better:
            self._score, self.step = score, entry["step"]

    def keep(self, model: nn.Module) -> None:
        """Copy the model's weights."""
        self._weights = {name: value.clone() for name, value in model.state_dict().items()}

    def restore(self, model: nn.Module) -> None:
        """Put the copy back into the model; without one, its weights stay."""
        if self._weights:
            model.load_state_dict(self._weights)

    def state_tensors(self) -> dict[str, Tensor]:
        """The copy, for a checkpoint; names begin with `PREFIX`."""
        return {PREFIX + name: value for name, value in self._weights.items()}

    def load_state_tensors(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Take the copy out of a checkpoint's tensors."""
        self._weights = {
            name.removeprefix(PREFIX): value.to(device)
            for name, value in tensors.items()
            if name.startswith(PREFIX)
        }
