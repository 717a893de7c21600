"""Limits of a page, which keep it below 3 MB: each attention weight is one character."""

from math import isqrt

MOST_TOKENS = 128
MOST_WEIGHTS = 2_500_000
"""Attention weights of one text on a page, if its length is not asked for."""
MOST_FRAMES = 12


def most_tokens(num_heads: int) -> int:
    """Return how many tokens of a text a page shows: 128, of models of very many heads fewer."""
    return max(8, min(MOST_TOKENS, isqrt(MOST_WEIGHTS // num_heads)))


def most_frames(num_heads: int, num_tokens: int) -> int:
    """Return how many checkpoints of a run a page shows for a text of so many tokens."""
    weights = num_heads * num_tokens**2
    return max(2, min(MOST_FRAMES, 2 * MOST_WEIGHTS // weights))
