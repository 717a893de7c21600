"""Probabilities from logits, in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax64(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute probabilities in fp64 from logits, both `[..., classes]`; each row sums to 1."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def sigmoid(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Compute a probability in fp64 for each logit, in any shape `[...]`, without overflow."""
    # Probabilities below 1/2 are computed directly: as 1 - p they would lose digits, or all.
    smaller = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits < 0, smaller, 1.0) / (1 + smaller)
