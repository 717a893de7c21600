"""A map of vectors, such as those of texts: their two principal components."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class VectorMap:
    """Points of vectors on a plane, fp64 [vectors, 2], and each axis' share of the variance."""

    points: NDArray[np.float64]
    explained: tuple[float, float]


def project(vectors: NDArray[np.float32]) -> VectorMap:
    """Project vectors [vectors, hidden] to their two principal components (Pearson 1901).

    The sign of an axis is chosen so that its largest number by magnitude is positive. If the
    vectors differ in fewer than two directions, the other coordinates are zero.
    """
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    left, scales, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    count = min(2, len(scales))
    points[:, :count] = left[:, :count] * scales[:count]
    rows_of_largest = np.abs(points).argmax(0)
    points *= np.where(points[rows_of_largest, [0, 1]] < 0, -1, 1)
    total = float(np.square(scales).sum())
    explained = np.zeros(2)
    if total > 0:
        explained[:count] = np.square(scales[:count]) / total
    return VectorMap(points, (float(explained[0]), float(explained[1])))
