"""Keep the weights of a run that had the best eval metric, and end the run early without progress.

Each checkpoint has a copy of these weights, for a resumed run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PREFIX = "best/"
"""Beginning of the names of these weights among the tensors of a checkpoint."""


@dataclass(frozen=True)
class BestSettings:
    """The eval metric by which weights are chosen, and the patience of early stopping."""

    metric: str
    """Name of the metric in the journal's eval entries; larger is better."""
    patience: int | None = None
    """Early stopping: the run ends after this many evals in a row without a better one. None turns
    it off."""
    from_start: bool = False
    """Whether the initial weights are evaluated and may be the best. Usually False, since the head
    of a task has random weights then."""


class BestWeights:
    """A copy of a model's weights from its best eval.

    If two evals have the same metric, the one with the lower loss is better. The eval before the
    first step counts only with `from_start`.
    """

    def __init__(self, settings: BestSettings) -> None:
        self.settings = settings
        self.step = 0
        self._score = (-math.inf, -math.inf)
        """The best metric, and the negative eval loss beside it."""
        self._num_not_better = 0
        """Number of evals since the best one."""
        self._weights: dict[str, Tensor] = {}

    @property
    def is_exhausted(self) -> bool:
        """Whether there were `patience` evals in a row without a better one."""
        patience = self.settings.patience
        return patience is not None and self._num_not_better >= patience

    @property
    def score(self) -> float:
        """The best metric so far; -inf before the first eval that counts."""
        return self._score[0]

    def consider(self, entry: Mapping[str, Any]) -> None:
        """Compare the journal entry of an eval with the best one; set `step` if it is better."""
        if entry["step"] == 0 and not self.settings.from_start:
            return
        score = (entry[self.settings.metric], -entry["held_out_loss"])
        is_better = score > self._score
        self._num_not_better = 0 if is_better else self._num_not_better + 1
        if is_better:
            self._score = score
            self.step = entry["step"]

    def keep(self, model: nn.Module) -> None:
        """Copy the model's weights, which replace an earlier copy."""
        self._weights = {name: value.clone() for name, value in model.state_dict().items()}

    def restore(self, model: nn.Module) -> None:
        """Load the copy into the model and drop it; without a copy, do nothing."""
        if self._weights:
            model.load_state_dict(self._weights)
            self._weights = {}

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the copy for a checkpoint; names begin with `PREFIX`.

        Shapes and dtypes are those of the model's weights; the tensors are not copied again.
        """
        return {PREFIX + name: value for name, value in self._weights.items()}

    def load_state_tensors(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Load the copy from a checkpoint's tensors whose names begin with `PREFIX`."""
        self._weights = {
            name.removeprefix(PREFIX): value.to(device)
            for name, value in tensors.items()
            if name.startswith(PREFIX)
        }
