"""The weighted mean of two linear fits: one to vectors and token counts, one to counts alone.

A fit is a logistic regression. The *joint* fit reads vectors of texts and TF-IDF of their tokens,
the fit to *counts* TF-IDF alone. As both are linear, the mean of their weights has the mean of
their logits.
"""

import numpy as np
from numpy.typing import NDArray

from bertsmith.finetuning.linear_features import LabelledTexts
from bertsmith.tasks.logistic_regression import LinearWeights, mean_loss

SHARES = np.linspace(0, 1, 20, endpoint=False)
"""Weights of the fit to counts alone that are tried; 1, whose prior density is 0, is left out."""


def share_of_counts(
    joint_logits: NDArray[np.float32],
    counts_logits: NDArray[np.float32],
    held_out: LabelledTexts,
    *,
    is_multi_label: bool,
) -> float:
    """Return the weight of the fit to counts alone, by the answers to held-out texts.

    The returned weight is the mean of its posterior distribution over `SHARES`. The prior density
    is proportional to (1 - weight)^2, with the mean 1/4, and the likelihood is that of the held-out
    labels. So a few texts hardly change the prior, and many texts decide.

    Args:
        joint_logits: of the fit to vectors and counts, fp32 `[texts, labels]`.
        counts_logits: of the fit to counts alone, in the same shape.
        held_out: the texts that the logits belong to, with their labels.
    """
    mean_losses = [
        mean_loss(
            weighted_mean(joint_logits, counts_logits, share),
            held_out.targets,
            is_multi_label=is_multi_label,
            importance=held_out.importance,
        )
        for share in SHARES
    ]
    log_likelihoods = -len(held_out) * np.array(mean_losses)
    # Divided by the largest likelihood, so that not all exponentials become 0.
    weights = (1 - SHARES) ** 2 * np.exp(log_likelihoods - log_likelihoods.max())
    return float(weights @ SHARES / weights.sum())


def weighted_mean(
    joint: NDArray[np.float32], counts: NDArray[np.float32], share: float
) -> NDArray[np.float32]:
    """Return the mean of two arrays of one shape; `share` is the weight of the second."""
    mean: NDArray[np.float32] = np.float32(1 - share) * joint + np.float32(share) * counts
    return mean


def mean_of_weights(joint: LinearWeights, counts: LinearWeights, share: float) -> LinearWeights:
    """Return the weights whose logits are the mean of the logits of both fits."""
    return LinearWeights(
        weighted_mean(joint.dense, counts.dense, share),
        weighted_mean(joint.sparse, counts.sparse, share),
        weighted_mean(joint.bias, counts.bias, share),
    )
