"""Patterns of attention: which keys of its sequence a query sees."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class AttentionPattern:
    """Keys that a query sees in its sequence: by default all.

    `causal` hides the keys after the query, `window` those more than that many columns away;
    padding between tokens counts as columns, as in transformers.
    """

    causal: bool = False
    window: int | None = None

    def allows(self, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return a mask of the pairs that may be seen, bool [..., queries, keys].

        The arguments are the columns of queries and keys in the padded batch, integers [...,
        queries] and [..., keys].
        """
        distance = queries[..., :, None] - keys[..., None, :]
        allowed = distance >= 0 if self.causal else np.full(distance.shape, True)
        return allowed if self.window is None else allowed & (abs(distance) <= self.window)

    def within(self, span: int) -> "AttentionPattern":
        """Return the pattern, without its window if the window hides nothing within `span` columns.

        Layers whose patterns then are equal share one view (`RowLayout.view`).
        """
        if self.window is None or self.window < span - 1:
            return self
        return replace(self, window=None)


FULL = AttentionPattern()
CAUSAL = AttentionPattern(causal=True)
