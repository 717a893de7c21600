"""Expected calibration error: do a model's confidences match its accuracy?"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 15
"""Number of bins in Guo et al. 2017."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of similar confidence: their mean confidence and their accuracy."""

    confidence: float
    accuracy: float
    count: int


def _zeros() -> NDArray[np.float64]:
    return np.zeros(NUM_BINS)


@dataclass
class Calibration:
    """Accumulator of confidences and correct predictions, in bins of equal width."""

    counts: NDArray[np.float64] = field(default_factory=_zeros)
    confidence: NDArray[np.float64] = field(default_factory=_zeros)
    right: NDArray[np.float64] = field(default_factory=_zeros)

    def add(self, confidences: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        """Add the confidences of predictions, from 0 to 1.

        `right` is 1 for a correct prediction and 0 for a wrong one; both arrays are `[n]`.
        """
        places = np.clip(np.ceil(confidences * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)
        self.counts += np.bincount(places, minlength=NUM_BINS)
        self.confidence += np.bincount(places, confidences, NUM_BINS)
        self.right += np.bincount(places, right, NUM_BINS)

    @property
    def num_predictions(self) -> int:
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        """Expected calibration error (Guo et al. 2017, eq. 3); 0 without predictions."""
        total = self.counts.sum()
        return float(np.abs(self.right - self.confidence).sum() / total) if total else 0.0

    def bins(self) -> list[Bin]:
        """Return the bins that are not empty, in order of rising confidence."""
        return [
            Bin(float(confidence / count), float(right / count), int(count))
            for count, confidence, right in zip(
                self.counts, self.confidence, self.right, strict=True
            )
            if count
        ]
