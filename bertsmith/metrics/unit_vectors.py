"""Vectors of length 1, whose products are cosines."""

import numpy as np
from numpy.typing import NDArray


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each vector, `[..., hidden]`, to length 1 in fp32; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    # As in torch's `F.normalize`, a length below 1e-12 counts as that, so none is divided by 0.
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
