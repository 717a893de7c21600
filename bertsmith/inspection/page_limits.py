"""Limits on the size of a page, where each attention weight is one character.

With these limits a page of one model has less than 3 MB, unless the user asks for a longer text.
The checkpoints of a run add up to 5 MB.
"""

from math import isqrt

MAX_PAGE_TOKENS = 128
MAX_PAGE_WEIGHTS = 2_500_000
"""Largest number of attention weights of one text on a page, unless the user sets its length."""
MAX_PAGE_CHECKPOINTS = 12
MAX_CHECKPOINT_WEIGHTS = 2 * MAX_PAGE_WEIGHTS
"""Largest number of attention weights of all checkpoints together. Two checkpoints are shown even
if they have more."""
CHARACTERS_PER_NUMBER = 2
"""Characters for a number in queries and keys, which are written more finely than weights."""


def count_page_tokens(num_heads: int) -> int:
    """Return how many tokens of a text a page shows: 128, or fewer if a model has many heads."""
    return max(8, min(MAX_PAGE_TOKENS, isqrt(MAX_PAGE_WEIGHTS // num_heads)))


def count_page_checkpoints(num_weights: int) -> int:
    """Return how many checkpoints of a run a page shows, each with `num_weights` weights."""
    return max(2, min(MAX_PAGE_CHECKPOINTS, MAX_CHECKPOINT_WEIGHTS // num_weights))


def fits_neurons(num_numbers: int, num_weights: int) -> bool:
    """Return whether a page has room for queries and keys beside the attention weights.

    Args:
        num_numbers: numbers in the queries and keys of all heads.
        num_weights: attention weights of all heads.
    """
    return CHARACTERS_PER_NUMBER * num_numbers + num_weights <= MAX_PAGE_WEIGHTS
