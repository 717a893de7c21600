"""Patterns of attention: which keys of its sequence a query sees."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class AttentionPattern:
    """Keys that a query sees in its sequence: by default all.

    `causal` hides the keys after the query. `window` hides keys that are more than `window` columns
    away from the query. A column is a token's index in its row of the padded batch, so padding
    between tokens counts, as in transformers.
    """

    causal: bool = False
    window: int | None = None

    def allows(self, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return whether each query sees each key, bool [..., queries, keys].

        The arguments are the columns of queries and keys in the padded batch, integers [...,
        queries] and [..., keys].
        """
        distance = queries[..., :, None] - keys[..., None, :]
        allowed = distance >= 0 if self.causal else np.full(distance.shape, True)
        return allowed if self.window is None else allowed & (abs(distance) <= self.window)

    def within(self, span: int) -> "AttentionPattern":
        """Return the pattern for sequences of at most `span` columns.

        If the window hides none of their keys, it is left out. Layers whose patterns are then equal
        share one view (`RowLayout.view`).
        """
        if self.window is None or self.window < span - 1:
            return self
        return replace(self, window=None)


FULL = AttentionPattern()
CAUSAL = AttentionPattern(causal=True)
