"""Similarity of vectors, by the functions that a folder of sentence-transformers may name."""

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.unit_vectors import unit_length
from bertsmith.tasks.sentence_folder import Similarity


def compute_similarity(
    first: NDArray[np.float32], second: NDArray[np.float32], similarity: Similarity
) -> NDArray[np.float32]:
    """Compare vectors `[n, hidden]` with vectors `[m, hidden]`; the result is `[n, m]`, all fp32.

    Larger numbers mean more similar vectors; distances are negated.
    """
    if similarity == "dot":
        return first @ second.T
    if similarity == "cosine":
        return (unit_length(first) @ unit_length(second).T).clip(-1, 1)
    order = 1 if similarity == "manhattan" else 2
    # One vector at a time: all differences at once would be an array [n, m, hidden].
    distances = [np.linalg.norm(second - vector, ord=order, axis=1) for vector in first]
    return -np.array(distances, dtype=np.float32).reshape(len(first), len(second))
