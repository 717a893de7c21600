"""Softmax and sigmoid in numpy, in float64: probabilities from logits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax64(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Compute probabilities in fp64 from logits, both `[..., classes]`; each row sums to 1."""
    # The largest logit is subtracted, so that no exponential overflows.
    exponentials = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def sigmoid(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Compute a probability in fp64 for each logit, in any shape `[...]`, without overflow."""
    # exp(x) / (1 + exp(x)) for negative x, and 1 / (1 + exp(-x)) for others. A probability below
    # 1/2 would lose its digits if it were computed as 1 minus another.
    exponentials = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits < 0, exponentials, 1.0) / (1 + exponentials)
