"""Queries and keys of all heads on a page, as in the neuron view of bertviz (Vig 2019).

Each number is written as two characters, which hold about three digits. Queries and keys take more
room than the attention weights, so a page has them only if the text is short enough.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.inspection.head_vectors import HeadVectors
from bertsmith.inspection.page_limits import fits_neurons
from bertsmith.inspection.plain_values import ALPHABET, rounded

NUM_LEVELS = len(ALPHABET) ** 2
"""Number of values that two characters can stand for."""


def plain_neurons(parts: Sequence[Sequence[HeadVectors]]) -> list[dict[str, Any]] | None:
    """Return the queries and keys of each part's layers; None if they take too much room.

    A part is attention of one kind, such as that of a target to its source; BERT has a single one.
    `queries` and `keys` are strings, in the order [layers, heads, tokens, head_size]. Two
    characters are the two digits of a level k, 0 to 8,280, in a number system with `ALPHABET` as
    digits. The level stands for k / 4,140 - 1 times the head's number in `queryScales` or
    `keyScales`.
    """
    layers = [layer for part in parts for layer in part]
    num_numbers = sum(layer.queries.numel() + layer.keys.numel() for layer in layers)
    num_weights = sum(
        len(layer.queries) * layer.queries.shape[1] * layer.keys.shape[1]  # heads, rows, columns
        for layer in layers
    )
    return list(map(_plain_part, parts)) if fits_neurons(num_numbers, num_weights) else None


def _plain_part(layers: Sequence[HeadVectors]) -> dict[str, Any]:
    queries, query_scales = _format_numbers([layer.queries for layer in layers])
    keys, key_scales = _format_numbers([layer.keys for layer in layers])
    return {
        "size": layers[0].queries.shape[-1],
        "queries": queries,
        "keys": keys,
        "queryScales": query_scales,
        "keyScales": key_scales,
    }


def _format_numbers(layers: Sequence[Tensor]) -> tuple[str, list[float]]:
    """Write each number as two characters; also return the largest magnitude of each head."""
    heads = torch.cat(list(layers)).double()
    scales = [rounded(scale) or 1.0 for scale in heads.abs().amax((1, 2)).tolist()]
    # nan_to_num hides numbers that are not finite, but they are in the scales, and writing the page
    # refuses them there.
    scaled = torch.nan_to_num(heads / heads.new_tensor(scales)[:, None, None]).clamp(-1, 1)
    levels = ((scaled + 1) / 2 * (NUM_LEVELS - 1)).round().long().numpy()
    codes = np.frombuffer(ALPHABET.encode("ascii"), dtype=np.uint8)
    digits = np.stack(np.divmod(levels, len(ALPHABET)), axis=-1)
    return codes[digits].tobytes().decode("ascii"), scales
