"""How fast the engine computes, by its latest batches."""

from collections import deque

NUM_BATCHES = 20


class RecentSpeed:
    """Tokens per second over the latest batches together.

    It is not a mean of the batches' own rates: a batch of one short text, which has a low rate,
    takes little time and so counts little.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float]] = deque(maxlen=NUM_BATCHES)

    def add(self, num_tokens: int, seconds: float) -> None:
        """Add a batch."""
        self._batches.append((num_tokens, seconds))

    def seconds_for(self, num_tokens: int) -> float:
        """Return the seconds that so many tokens take; 0 before the first batch."""
        tokens = sum(tokens for tokens, _ in self._batches)
        seconds = sum(seconds for _, seconds in self._batches)
        return num_tokens * seconds / tokens if tokens else 0.0
