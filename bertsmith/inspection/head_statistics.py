"""Statistics of attention heads over texts: where each head looks, and how widely.

Clark et al. 2019, "What Does BERT Look At?", sections 3.1 to 3.3, found heads for the previous,
the next and the separator token in this way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

STATISTICS = ("entropy", "previous", "next", "first", "separator", "distance")
"""Names of the statistics. Entropy is in bits, distance in tokens, the others are shares."""


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """Means over all tokens of all texts, fp64 [layers, heads, statistics].

    The last axis has the order of `STATISTICS`. `previous` and `next` are means over the tokens
    that have such a neighbour. `distance` is the distance in tokens, averaged with the attention
    weights; a neighbour has the distance 1.
    """

    means: NDArray[np.float64]
    num_texts: int
    num_tokens: int


class StatisticsSum:
    """Accumulator of the statistics of all heads, a batch at a time."""

    def __init__(self, num_layers: int, num_heads: int) -> None:
        self._sums = np.zeros((num_layers, num_heads, len(STATISTICS)))
        self._counts = np.zeros(len(STATISTICS))
        self.num_texts = 0
        self.num_tokens = 0

    def add_lengths(self, lengths: Sequence[int]) -> None:
        """Count the texts of a batch by the numbers of their tokens."""
        num_tokens = sum(lengths)
        num_neighbours = num_tokens - len(lengths)
        counts = dict.fromkeys(STATISTICS, num_tokens)
        counts |= {"previous": num_neighbours, "next": num_neighbours}
        self._counts += [counts[name] for name in STATISTICS]
        self.num_texts += len(lengths)
        self.num_tokens += num_tokens

    def add_weights(self, layer: int, weights: Tensor, is_separator: Tensor) -> None:
        """Add the attention of one layer within one text.

        Call `add_lengths` once for each batch as well.

        Args:
            weights: fp32 [heads, tokens, tokens], a query in each row.
            is_separator: whether each token separates or ends texts, bool [tokens].
        """
        length = weights.shape[-1]
        columns = torch.arange(length, device=weights.device)
        distances = (columns - columns[:, None]).abs().to(weights.dtype)
        sums = {
            "entropy": -torch.xlogy(weights, weights).sum((1, 2)) / np.log(2),
            "previous": weights.diagonal(-1, 1, 2).sum(1),
            "next": weights.diagonal(1, 1, 2).sum(1),
            "first": weights[:, :, 0].sum(1),
            "separator": weights[:, :, is_separator].sum((1, 2)),
            "distance": (weights * distances).sum((1, 2)),
        }
        in_order = torch.stack([sums[name] for name in STATISTICS], dim=1)
        self._sums[layer] += in_order.double().cpu().numpy()

    def result(self) -> HeadStatistics:
        """Compute the means."""
        means = self._sums / np.maximum(1, self._counts)
        return HeadStatistics(means, self.num_texts, self.num_tokens)
