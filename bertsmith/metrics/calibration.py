"""How sure a model is, and how often it is right then: can its probabilities be believed?"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 15
"""As Guo et al. 2017 have it."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of similar confidence: their mean confidence, and the share that is right."""

    confidence: float
    accuracy: float
    count: int


def _zeros() -> NDArray[np.float64]:
    return np.zeros(NUM_BINS)


@dataclass
class Calibration:
    """Sums over predictions, in bins of equal width; takes them in portion by portion."""

    counts: NDArray[np.float64] = field(default_factory=_zeros)
    confidence: NDArray[np.float64] = field(default_factory=_zeros)
    right: NDArray[np.float64] = field(default_factory=_zeros)

    def add(self, confidences: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        """Take in predictions: how sure, from 0 to 1, and whether right (1 or 0), `[n]` each."""
        places = np.clip(np.ceil(confidences * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)
        self.counts += np.bincount(places, minlength=NUM_BINS)
        self.confidence += np.bincount(places, confidences, NUM_BINS)
        self.right += np.bincount(places, right, NUM_BINS)

    @property
    def num_predictions(self) -> int:
        """How many were taken in."""
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        """The expected calibration error (Guo et al. 2017, eq. 3): the mean distance between
        confidence and accuracy, over bins, by their counts; 0 of nothing."""
        total = self.counts.sum()
        return float(np.abs(self.right - self.confidence).sum() / total) if total else 0.0

    def bins(self) -> list[Bin]:
        """The bins that hold something, by rising confidence."""
        return [
            Bin(float(confidence / count), float(right / count), int(count))
            for count, confidence, right in zip(
                self.counts, self.confidence, self.right, strict=True
            )
            if count
        ]
