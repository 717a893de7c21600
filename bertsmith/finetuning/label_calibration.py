"""Calibrate a classifier by texts that were held out: one scale of all logits, a bias per label.

`finetune classify --head auto` does this for the contrastive head: a linear head on an encoder that
learned from the same few texts. Such a head is too sure of its answers, and gives a rare label too
often. Scaled and shifted, its probabilities fit how often it is right. This is
temperature scaling with a bias for each label (Alexandari et al. 2020, "Maximum Likelihood with
Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.tasks.lbfgs import minimize
from bertsmith.tasks.linear_head import LinearHead

FEWEST_TO_CALIBRATE = 32
"""Smallest number of texts by whose held-out answers a head is calibrated. With 16 texts and models
that were pre-trained for minutes, a calibration took three points of accuracy
(`benchmarks/results/few-labels.md`)."""
MIN_HELD_OUT_PROBABILITY = 1e-4
"""Smallest probability of a held-out answer that counts; a smaller one counts as this. A single
answer that is sure and wrong would otherwise decide the scale."""
PRIOR_SCALE = 0.5
"""The likeliest scale before any text is seen; the heads of few texts are too sure."""
LOG_SCALE_DEVIATION = 2.0
"""Standard deviation of the logarithm of the scale, a priori: hardly a limit, but with a few texts
that are all right the scale stays finite."""
BIAS_DEVIATION = 1.0
"""Standard deviation of a bias, a priori."""
TOLERANCE = 1e-6
"""Largest entry of the gradient at which the fit ends."""
MAX_ITERATIONS = 200


@dataclass(frozen=True)
class HeldOutAnswers:
    """Answers to texts that a head has not learned from.

    Shapes: `probabilities` fp64 `[texts, labels]`; `labels`, the index of each text's label,
    int64 `[texts]`; `importance`, the factor of each text's loss by the weight of its label, fp64
    `[texts]`. `num_folds` is the number of folds that the texts come from.
    """

    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    importance: NDArray[np.float64]
    num_folds: int


@dataclass(frozen=True)
class LabelCalibration:
    """A scale of the logits, and the bias that is then added for each label."""

    scale: float
    biases: tuple[float, ...]
    num_folds: int
    """Number of folds of the cross-validation whose answers it was fitted to."""
    loss_before: float
    """Mean cross entropy of the held-out texts without it, in nats."""
    loss_after: float
    """Mean cross entropy of the same texts with it, in nats."""

    def __str__(self) -> str:
        return (
            f"calibrated by cross-validation with {self.num_folds} folds: logits times "
            f"{self.scale:.2f}, plus a bias for each label (loss {self.loss_before:.3f} before, "
            f"{self.loss_after:.3f} after)"
        )

    def apply(self, head: LinearHead) -> LinearHead:
        """Return the head whose logits are scaled and shifted."""
        scale, biases = np.float32(self.scale), np.array(self.biases, np.float32)
        return replace(
            head,
            vector_weights=head.vector_weights * scale,
            bias=head.bias * scale + biases,
            ngram_weights=head.ngram_weights * scale,
        )


def join_answers(of_folds: Sequence[HeldOutAnswers]) -> HeldOutAnswers:
    """Join the answers to several folds."""
    return HeldOutAnswers(
        np.concatenate([each.probabilities for each in of_folds]),
        np.concatenate([each.labels for each in of_folds]),
        np.concatenate([each.importance for each in of_folds]),
        num_folds=len(of_folds),
    )


def fit_calibration(answers: HeldOutAnswers) -> LabelCalibration:
    """Fit the scale and the biases: the most probable ones, given the answers and the priors."""
    logits = torch.from_numpy(np.log(np.maximum(answers.probabilities, MIN_HELD_OUT_PROBABILITY)))
    num_texts, num_labels = logits.shape
    gold = torch.nn.functional.one_hot(torch.from_numpy(answers.labels), num_labels).double()
    importance = torch.from_numpy(answers.importance)

    def mean_loss(scale: Tensor, biases: Tensor) -> Tensor:
        losses = -((scale * logits + biases).log_softmax(1) * gold).sum(1)
        return (losses * importance).sum() / num_texts

    def negative_log_posterior(values: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the value and gradient at [log of the scale, biases], per text."""
        log_scale, biases = values[0], values[1:]
        scale = log_scale.exp()
        from_prior = log_scale - math.log(PRIOR_SCALE)
        penalty = (from_prior / LOG_SCALE_DEVIATION).square() / 2
        penalty = penalty + (biases / BIAS_DEVIATION).square().sum() / 2
        errors = ((scale * logits + biases).softmax(1) - gold) * importance[:, None]
        gradient = torch.empty_like(values)
        gradient[0] = scale * (errors * logits).sum() + from_prior / LOG_SCALE_DEVIATION**2
        gradient[1:] = errors.sum(0) + biases / BIAS_DEVIATION**2
        return mean_loss(scale, biases) + penalty / num_texts, gradient / num_texts

    start = torch.zeros(1 + num_labels, dtype=torch.float64)
    start[0] = math.log(PRIOR_SCALE)
    best = minimize(
        negative_log_posterior, start, tolerance=TOLERANCE, max_iterations=MAX_ITERATIONS
    )
    scale, biases = best[0].exp(), best[1:]
    return LabelCalibration(
        scale=float(scale),
        biases=tuple(biases.tolist()),
        num_folds=answers.num_folds,
        loss_before=float(mean_loss(torch.ones((), dtype=torch.float64), torch.zeros(num_labels))),
        loss_after=float(mean_loss(scale, biases)),
    )
