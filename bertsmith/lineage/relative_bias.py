"""T5's relative position bias: a learned number for each head and each bucket of distances.

Source: Raffel et al. 2020, section 2.1. The distance is that between a query and a key, in tokens.
Each small distance has a bucket of its own. Larger distances share buckets, whose width grows with
the distance. Attention is computed block by block: a block has some sequences of similar length,
padded to one length.
"""

import math

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import send
from bertsmith.model.blocks import Block


class RelativeBias:
    """The biases that a stack of layers adds to the attention scores, in one forward pass.

    Args:
        weight: the learned biases, [buckets, heads].
        bidirectional: whether keys after a query have buckets of their own; if not, they have the
            bucket of distance 0, and causal attention hides them.
        max_distance: this distance and all larger ones share the last bucket.
    """

    def __init__(self, weight: Tensor, max_distance: int, *, bidirectional: bool) -> None:
        self.weight = weight
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        # The biases of each block, by the `id` of the block. All layers share a view, which keeps
        # its blocks alive during the pass, so no other object gets the same `id`.
        self._cache: dict[int, Tensor] = {}

    def __call__(self, block: Block) -> Tensor:
        """Return the biases of a block, [rows or 1, heads, queries, keys].

        They are computed for the first layer, and used again by the others.
        """
        if id(block) not in self._cache:
            self._cache[id(block)] = self._compute(block)
        return self._cache[id(block)]

    def _compute(self, block: Block) -> Tensor:
        # Positions in the sequences: [rows or 1, queries] and [rows or 1, keys].
        queries, keys = block.queries.cell_columns, block.keys.cell_columns
        distances = keys[..., None, :] - queries[..., :, None]
        num_buckets, num_heads = self.weight.shape
        buckets = choose_buckets(
            distances, num_buckets, self.max_distance, bidirectional=self.bidirectional
        )
        index = send(torch.from_numpy(buckets.reshape(-1)), self.weight.device)
        biases = self.weight.index_select(0, index)
        return biases.view(-1, *distances.shape[-2:], num_heads).permute(0, 3, 1, 2)


def choose_buckets(
    distances: np.ndarray, num_buckets: int, max_distance: int, *, bidirectional: bool
) -> np.ndarray:
    """Return the bucket of each distance, key minus query, int64 of the same shape.

    >>> distances = np.array([0, -1, -7, -8, -20, -500, 3])
    >>> choose_buckets(distances, 32, 128, bidirectional=True).tolist()
    [0, 1, 7, 8, 10, 15, 19]
    """
    first_bucket = np.zeros_like(distances)
    if bidirectional:
        num_buckets //= 2
        first_bucket = (distances > 0) * num_buckets
        distances = np.abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    num_exact = num_buckets // 2  # buckets of a single distance
    # Logarithms are computed in fp32, as in transformers: at some distances rounding decides the
    # bucket.
    ratios = np.maximum(distances, 1).astype(np.float32) / np.float32(num_exact)
    scale = np.float32(math.log(max_distance / num_exact))
    num_shared = np.float32(num_buckets - num_exact)  # buckets of several distances
    logarithmic = num_exact + (np.log(ratios) / scale * num_shared).astype(np.int64)
    logarithmic = np.minimum(logarithmic, num_buckets - 1)
    buckets = np.where(distances < num_exact, distances, logarithmic)
    return (first_bucket + buckets).astype(np.int64)
