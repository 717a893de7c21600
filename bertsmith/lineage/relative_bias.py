"""T5's positions: a learned number for each head and each bucket of distances between two tokens.

Source: Raffel et al. 2020, section 2.1. Each small distance has a bucket of its own. Larger
distances share buckets, whose width grows with the distance.
"""

import math

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.model.blocks import Block


class RelativeBias:
    """The numbers that a stack adds to the scores of all its layers, for one forward pass.

    Args:
        weight: the learned numbers, [buckets, heads].
        both_sides: whether keys after a query have buckets of their own; if not, they have the
            bucket of distance 0, and a causal view hides them.
        max_distance: this distance and all larger ones share the last bucket.
    """

    def __init__(self, weight: Tensor, max_distance: int, *, both_sides: bool) -> None:
        self.weight = weight
        self.max_distance = max_distance
        self.both_sides = both_sides
        self._of_blocks: dict[int, Tensor] = {}

    def __call__(self, block: Block) -> Tensor:
        """Return the numbers of a block, [rows or 1, heads, queries, keys].

        They are computed for the first layer, and used again by the others.
        """
        if id(block) not in self._of_blocks:
            queries, keys = block.queries.cell_columns, block.keys.cell_columns
            distances = keys[..., None, :] - queries[..., :, None]
            numbers = bucket(
                distances, len(self.weight), self.max_distance, both_sides=self.both_sides
            )
            index = send(torch.from_numpy(numbers.reshape(-1)), self.weight.device)
            values = self.weight.index_select(0, index).view(-1, *distances.shape[-2:],
                                                             self.weight.shape[1])  # fmt: skip
            self._of_blocks[id(block)] = values.permute(0, 3, 1, 2)
        return self._of_blocks[id(block)]


def bucket(
    distances: np.ndarray, num_buckets: int, max_distance: int, *, both_sides: bool
) -> np.ndarray:
    """Return the bucket of each distance, key minus query, int64 of the same shape.

    >>> bucket(np.array([0, -1, -7, -8, -20, -500, 3]), 32, 128, both_sides=True).tolist()
    [0, 1, 7, 8, 10, 15, 19]
    """
    first = np.zeros_like(distances)
    if both_sides:
        num_buckets //= 2
        first = (distances > 0) * num_buckets
        distances = np.abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    exact = num_buckets // 2
    # In fp32, as transformers computes it: at some distances rounding decides the bucket.
    far = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
    scale = np.float32(math.log(max_distance / exact))
    shared = exact + (np.log(far) / scale * np.float32(num_buckets - exact)).astype(np.int64)
    shared = np.minimum(shared, num_buckets - 1)
    return (first + np.where(distances < exact, distances, shared)).astype(np.int64)
