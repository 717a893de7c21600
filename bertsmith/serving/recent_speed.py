"""The speed of the engine, the process that computes, under load, by its latest batches.

From it, the server estimates how long a new request would wait.
"""

from collections import deque

NUM_BATCHES = 20
"""Number of the latest batches that count."""


class RecentSpeed:
    """Seconds per token over the latest batches together.

    It is not a mean of the batches' own rates: a batch of one short text, which has a low rate,
    takes little time and so counts little.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float]] = deque(maxlen=NUM_BATCHES)

    def add(self, num_tokens: int, seconds: float) -> None:
        """Add a batch, with all the time that it took the engine."""
        self._batches.append((num_tokens, seconds))

    @property
    def seconds_per_token(self) -> float:
        """Seconds that one token takes; 0 before the first batch."""
        tokens = sum(tokens for tokens, _ in self._batches)
        seconds = sum(seconds for _, seconds in self._batches)
        return seconds / tokens if tokens else 0.0
