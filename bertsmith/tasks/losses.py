"""Cross entropies with class weights, label smoothing and focal loss.

Class weights help with rare classes, label smoothing with noisy labels, and focal loss (Lin et al.
2017, eq. 5) with data that has many easy examples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.tasks.settings.losses import BALANCED, LossSettings, allowed_weights


@dataclass(frozen=True)
class LabelLoss:
    """Cross entropy over labels, with class weights `[labels]`, or None for weights of 1.

    With `focal_gamma`, each loss is multiplied by (1 - p) to the power of `focal_gamma`, where p is
    the probability of the right answer (Lin et al. 2017, eq. 5).
    """

    weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0

    def with_labels(self, old_labels: Sequence[str], new_labels: Sequence[str]) -> Self:
        """Return the loss for `new_labels`.

        Those that are among `old_labels` keep their weights; others get 1.
        """
        if self.weights is None:
            return self
        weight_of_label = dict(zip(old_labels, self.weights, strict=True))
        weights = tuple(weight_of_label.get(label, 1.0) for label in new_labels)
        return replace(self, weights=weights)


class ClassLoss(LabelLoss):
    """Cross entropy of one label among several."""

    def sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over `logits` `[n, classes]` and `labels` int64 `[n]`: an fp32 scalar.

        `logits` are fp32. Labels of -100 (`IGNORE_INDEX`) are ignored.
        """
        weights = None if self.weights is None else logits.new_tensor(self.weights)
        if not self.focal_gamma:
            return F.cross_entropy(
                logits, labels, weights, reduction="sum", label_smoothing=self.label_smoothing
            )
        losses = F.cross_entropy(logits, labels, reduction="none")
        prob_wrong = -(-losses).expm1()  # 1 - p
        prob_wrong = prob_wrong.clamp(min=1e-8)  # so that no gradient of its power is infinite
        scaled = prob_wrong**self.focal_gamma * losses
        if weights is not None:
            scaled = scaled * weights[labels.clamp(min=0)]
        return scaled.sum()


class BinaryLoss(LabelLoss):
    """Binary cross entropy per label; the weight of a label applies where the label is present."""

    def sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Average the loss over labels and sum it over texts: an fp32 scalar.

        `logits` and `labels` are fp32 `[texts, labels]`; labels are 0 or 1.
        """
        # With the smoothing s, a label of 0 becomes s / 2, and a label of 1 becomes 1 - s / 2.
        smoothed = labels * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        weights = None if self.weights is None else logits.new_tensor(self.weights)
        losses = F.binary_cross_entropy_with_logits(
            logits, smoothed, reduction="none", pos_weight=weights
        )
        if self.focal_gamma:
            # 1 - p; above 0, so that no gradient of its power is infinite.
            prob_wrong = torch.sigmoid(torch.where(labels > 0, -logits, logits)).clamp(min=1e-8)
            losses = prob_wrong**self.focal_gamma * losses
        return losses.mean(1).sum()


def class_loss(
    settings: LossSettings, labels: Sequence[str], counts: NDArray[np.int64]
) -> ClassLoss:
    """Build the loss of one label among `labels`, which occur `counts` times in training.

    `counts` is int64 `[labels]`.

    Raises:
        ConfigError: a class weight is not a number, or names an unknown label.
    """
    weights = class_weights(settings.class_weights, labels, counts)
    return ClassLoss(weights, settings.label_smoothing, settings.focal_gamma)


def binary_loss(
    settings: LossSettings, labels: Sequence[str], counts: NDArray[np.int64], num_examples: int
) -> BinaryLoss:
    """Build the loss of any number of labels; class weights apply where a label is present.

    `counts`, int64 `[labels]`, says how many of the `num_examples` examples have each label. The
    balanced weight of a label is the number of examples without it, divided by the number with it.

    Raises:
        ConfigError: a class weight is not a number, or of an unknown label.
    """
    if settings.class_weights == (BALANCED,):  # "balanced"
        ratios = (num_examples - counts) / np.maximum(counts, 1)
        # A label of every example has the ratio 0, with which its loss would be 0, too.
        weights: tuple[float, ...] | None = tuple(np.maximum(ratios, 1e-3).tolist())
    else:
        weights = class_weights(settings.class_weights, labels, counts)
    return BinaryLoss(weights, settings.label_smoothing, settings.focal_gamma)


def class_weights(
    requested: Sequence[str], labels: Sequence[str], counts: NDArray[np.int64]
) -> tuple[float, ...] | None:
    """Compute the requested class weights `[labels]`; None if none are requested.

    With "balanced" the weight of a label is examples / (labels x examples of the label), as in
    scikit-learn, so that the mean over the examples is 1.

    Raises:
        ConfigError: a request is neither "balanced" nor label=weight, or names an unknown label.
    """
    if not requested:
        return None
    if tuple(requested) == (BALANCED,):
        return balanced(counts)
    weights = dict.fromkeys(labels, 1.0)
    for request in requested:
        name, weight = _parse_weight(request, labels)
        weights[name] = weight
    return tuple(weights.values())


def balanced(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Compute weights inverse to label counts; labels without examples get 1."""
    num_present = int((counts > 0).sum())
    inverse = counts.sum() / (num_present * np.maximum(counts, 1))
    weights: list[float] = np.where(counts > 0, inverse, 1.0).tolist()
    return tuple(weights)


def _parse_weight(request: str, labels: Sequence[str]) -> tuple[str, float]:
    """Parse a label and its weight, such as "spam=3"."""
    label, _, number = request.rpartition("=")
    if not label:
        raise SettingError("class_weights", request, allowed_weights(labels[0]))
    if label not in labels:
        raise SettingError("class_weights", label, f"one of the labels {', '.join(labels[:10])}")
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan  # refused below
    if not 0 <= weight < math.inf:
        raise ConfigError(
            f"{option('class_weights')}: found '{request}'; a weight is a number, 0 or more."
        )
    return label, weight
