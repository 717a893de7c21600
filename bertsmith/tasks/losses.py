"""Cross entropy and its relatives: logits and labels in, a summed loss out.

Each serves a problem of real data: weights for rare classes, smoothing for labels that are not
all right, and focal loss (Lin et al. 2017, eq. 5) for a mass of easy examples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.tasks.settings import FinetuneSettings

BALANCED = "balanced"


@dataclass(frozen=True)
class LossSettings(FinetuneSettings):
    """Settings of a task that chooses among labels."""

    class_weights: tuple[str, ...] = ()
    """How much each label counts: balanced, so that all labels together count the same however
    rare they are, or label=weight pairs such as spam=3 ham=1. Labels that are not named have 1."""
    label_smoothing: float = 0.0
    """Give wrong labels this share of the probability that is learnt, so that the model grows less
    sure of labels that may be wrong."""
    focal_gamma: float = 0.0
    """Above 0, examples of which the model is sure count less (focal loss); 2 is usual."""

    def __post_init__(self) -> None:
        """Refuse losses that are none."""
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(
                f"--label-smoothing: found {self.label_smoothing}; allowed is 0 or more, below 1."
            )
        if not 0 <= self.focal_gamma < math.inf:
            raise ConfigError(f"--focal-gamma: found {self.focal_gamma}; allowed is 0 or more.")
        if self.label_smoothing and self.focal_gamma:
            raise ConfigError(
                "--label-smoothing and --focal-gamma exclude each other. Give one of them."
            )

    def loss(self, labels: Sequence[str], counts: NDArray[np.int64]) -> "ClassLoss":
        """The loss for `labels`, of which training has `counts`, `[labels]`."""
        weights = class_weights(self.class_weights, labels, counts)
        return ClassLoss(weights, self.label_smoothing, self.focal_gamma)

    def binary_loss(
        self, labels: Sequence[str], counts: NDArray[np.int64], num_examples: int
    ) -> "BinaryLoss":
        """The same where each label is a decision of its own; weights are of its presence."""
        if self.class_weights == (BALANCED,):
            weights = (num_examples - counts) / np.maximum(counts, 1)
            given: tuple[float, ...] | None = tuple(np.maximum(weights, 1e-3).tolist())
        else:
            given = class_weights(self.class_weights, labels, counts)
        return BinaryLoss(given, self.label_smoothing, self.focal_gamma)


@dataclass(frozen=True)
class ClassLoss:
    """Cross entropy of one label among several, with `weights` `[labels]` or None."""

    weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0

    def sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """fp32 scalar of `logits` `[n, classes]` and `labels` int64 `[n]`.

        Labels of -100 (`IGNORE_INDEX`) count for nothing.
        """
        weights = None if self.weights is None else logits.new_tensor(self.weights)
        if not self.focal_gamma:
            return F.cross_entropy(
                logits, labels, weights, reduction="sum", label_smoothing=self.label_smoothing
            )
        losses = F.cross_entropy(logits, labels, reduction="none")
        wrong = (-(-losses).expm1()).clamp(min=1e-8)  # 1 - p, of which a power is never infinite
        scaled = wrong**self.focal_gamma * losses
        if weights is not None:
            scaled = scaled * weights[labels.clamp(min=0)]
        return scaled.sum()

    def relabelled(self, before: Sequence[str], after: Sequence[str]) -> "ClassLoss":
        """The same where the labels `before` are now some of `after`."""
        return replace(self, weights=moved_weights(self.weights, before, after))


@dataclass(frozen=True)
class BinaryLoss:
    """Binary cross entropy of each label; `weights` `[labels]` count where it is present."""

    weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0

    def sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """fp32 scalar: the mean over labels, summed over the rows of `logits` and `labels`, both
        `[n, labels]`, the latter 0 or 1."""
        smoothed = labels * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        weights = None if self.weights is None else logits.new_tensor(self.weights)
        losses = F.binary_cross_entropy_with_logits(
            logits, smoothed, reduction="none", pos_weight=weights
        )
        if self.focal_gamma:
            wrong = torch.sigmoid(torch.where(labels > 0, -logits, logits)).clamp(min=1e-8)
            losses = wrong**self.focal_gamma * losses
        return losses.mean(1).sum()

    def relabelled(self, before: Sequence[str], after: Sequence[str]) -> "BinaryLoss":
        """The same where the labels `before` are now some of `after`."""
        return replace(self, weights=moved_weights(self.weights, before, after))


def moved_weights(
    weights: tuple[float, ...] | None, before: Sequence[str], after: Sequence[str]
) -> tuple[float, ...] | None:
    """The weights `[after]` of labels that had `weights` `[before]`; those that are new have 1."""
    if weights is None:
        return None
    known = dict(zip(before, weights, strict=True))
    return tuple(known.get(label, 1.0) for label in after)


def class_weights(
    given: Sequence[str], labels: Sequence[str], counts: NDArray[np.int64]
) -> tuple[float, ...] | None:
    """Weights `[labels]` as asked for; None where nothing is.

    `balanced` gives n / (labels x count) as scikit-learn does, so that the mean over the examples
    is 1.

    Raises:
        ConfigError: neither "balanced" nor label=weight, or a label that is none.
    """
    if not given:
        return None
    if tuple(given) == (BALANCED,):
        return balanced(counts)
    weights = dict.fromkeys(labels, 1.0)
    for word in given:
        name, value = _weight(word, labels)
        weights[name] = value
    return tuple(weights.values())


def balanced(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """The weight of each label that makes all count the same; labels without examples have 1."""
    present = int((counts > 0).sum())
    weights: list[float] = np.where(
        counts > 0, counts.sum() / (present * np.maximum(counts, 1)), 1.0
    ).tolist()
    return tuple(weights)


def _weight(word: str, labels: Sequence[str]) -> tuple[str, float]:
    name, _, text = word.rpartition("=")
    if not name:
        raise ConfigError(
            f"--class-weights: found '{word}'; allowed are {BALANCED}, or label=weight pairs such "
            f"as {labels[0]}=2."
        )
    if name not in labels:
        raise ConfigError(
            f"--class-weights: '{name}' is no label; labels are {', '.join(labels[:10])}."
        )
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError(f"--class-weights: found '{word}'; a weight is a number, 0 or more.")
    return name, value
