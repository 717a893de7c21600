"""The engine's queue of texts to compute, which chooses the texts of the next batch.

There is no waiting window: whenever the model is free, it takes the texts that are queued, up to a
budget of real tokens. Requests take turns: a batch takes some texts of each in turn, and a request
that was served goes behind all others. So a request with many texts delays another request by one
batch at most. A turn is a share of a batch, not one text. Otherwise a request of many short texts
would need as many turns as it has texts, and reach its time-out while many other requests wait.
"""

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

TURNS_OF_BATCH = 4
"""Number of turns that fill a batch."""


@dataclass
class _Texts:
    """The texts of a request that are not computed yet."""

    key: Hashable
    """Only requests with equal keys can share a batch."""
    costs: Sequence[int]
    """Number of tokens of each text."""
    next_text: int = 0
    """Index of the first text that is not computed yet."""

    @property
    def is_empty(self) -> bool:
        return self.next_text == len(self.costs)

    def take(self, turn_tokens: int, room: float) -> range:
        """Take the next texts for one turn.

        Args:
            turn_tokens: largest number of tokens of a turn; a longer text is a turn by itself.
            room: number of tokens for which the batch has room.

        Returns:
            The indices of the texts; empty if the next text does not fit into the batch.
        """
        first = self.next_text
        tokens_left = min(max(turn_tokens, self.costs[first]), room)
        while not self.is_empty and self.costs[self.next_text] <= tokens_left:
            tokens_left -= self.costs[self.next_text]
            self.next_text += 1
        return range(first, self.next_text)


@dataclass
class RequestQueue:
    """Requests by their ids, in the order of their turns."""

    _requests: dict[int, _Texts] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._requests)

    def tokens_before_new(self, max_tokens: int) -> int:
        """Return an upper limit on the tokens that are computed before a new request's turn.

        Until then, each request that waits is in at most one batch. It may have several turns
        there, if other requests leave room, so it counts with `max_tokens` at most.
        """
        return sum(
            min(sum(texts.costs[texts.next_text :]), max_tokens)
            for texts in self._requests.values()
        )

    def add(self, request_id: int, key: Hashable, costs: Sequence[int]) -> None:
        """Add a request; only requests with the same `key` can be computed together.

        Args:
            costs: number of tokens of each text, at least one text.
        """
        self._requests[request_id] = _Texts(key, costs)

    def cancel(self, request_id: int) -> bool:
        """Remove the rest of a request; return whether there was one."""
        return self._requests.pop(request_id, None) is not None

    def take(self, max_tokens: int) -> list[tuple[int, int]]:
        """Take texts of at most `max_tokens` tokens, but at least one.

        All texts have the key of the request whose turn it is. A request gets about a quarter of
        the batch (`TURNS_OF_BATCH`) at each of its turns. The result has pairs of a request's id
        and the index of its text, sorted by both.

        >>> queue = RequestQueue()
        >>> queue.add(1, "a", [10, 10, 10])
        >>> queue.add(2, "a", [10])
        >>> queue.take(30)
        [(1, 0), (1, 1), (2, 0)]
        """
        if not self._requests:
            return []
        key = next(iter(self._requests.values())).key
        turns = deque(id_ for id_, texts in self._requests.items() if texts.key == key)
        taken: list[tuple[int, int]] = []
        room = max_tokens
        while turns:
            request_id = turns.popleft()
            texts = self._requests[request_id]
            # The first text is taken whatever its length, so that a long one is computed alone.
            indices = texts.take(max_tokens // TURNS_OF_BATCH, room if taken else math.inf)
            if not indices:
                continue  # a shorter text of another request may still fit
            room -= sum(texts.costs[index] for index in indices)
            taken += [(request_id, index) for index in indices]
            del self._requests[request_id]
            if not texts.is_empty:
                self._requests[request_id] = texts  # behind those that wait for their turn
                turns.append(request_id)
        return sorted(taken)
