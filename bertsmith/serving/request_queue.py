"""The queue of texts to compute: which of them share the next forward passes.

There is no waiting window: whenever the model is free, it takes the texts that are queued, up to a
budget of real tokens. Requests take turns: a batch takes one text of each in turn, and a request
that was served goes behind all others. So a request with many texts delays another request by one
batch at most.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


@dataclass
class _Waiting:
    """The texts of a request that are not computed yet."""

    key: Hashable
    costs: Sequence[int]
    next_text: int = 0

    @property
    def is_empty(self) -> bool:
        return self.next_text == len(self.costs)


@dataclass
class RequestQueue:
    """Requests by their numbers, in the order of their turns."""

    _requests: dict[int, _Waiting] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._requests)

    def tokens_before_new(self, max_tokens: int) -> int:
        """Return the number of tokens that are computed before a new request's turn, at most.

        Each request that waits is served at most once before, with at most `max_tokens`.
        """
        return sum(
            min(sum(waiting.costs[waiting.next_text :]), max_tokens)
            for waiting in self._requests.values()
        )

    def add(self, number: int, key: Hashable, costs: Sequence[int]) -> None:
        """Add a request; only requests with the same `key` can be computed together.

        Args:
            costs: number of tokens of each text, at least one text.
        """
        self._requests[number] = _Waiting(key, costs)

    def cancel(self, number: int) -> bool:
        """Remove the rest of a request; return whether there was one."""
        return self._requests.pop(number, None) is not None

    def take(self, max_tokens: int) -> list[tuple[int, int]]:
        """Take texts of at most `max_tokens` tokens, but at least one.

        All have the key of the request whose turn it is. The result has pairs of a request's
        number and the index of its text, in the order of requests and texts.

        >>> queue = RequestQueue()
        >>> queue.add(1, "a", [10, 10, 10])
        >>> queue.add(2, "a", [10])
        >>> queue.take(30)
        [(1, 0), (1, 1), (2, 0)]
        """
        if not self._requests:
            return []
        key = next(iter(self._requests.values())).key
        turns = deque(number for number, waiting in self._requests.items() if waiting.key == key)
        taken: list[tuple[int, int]] = []
        room = max_tokens
        while turns:
            number = turns.popleft()
            waiting = self._requests[number]
            cost = waiting.costs[waiting.next_text]
            if taken and cost > room:
                continue  # a shorter text of another request may still fit
            room -= cost
            taken.append((number, waiting.next_text))
            waiting.next_text += 1
            del self._requests[number]
            if not waiting.is_empty:
                self._requests[number] = waiting  # behind those that wait for their turn
                turns.append(number)
        return sorted(taken)
