"""Places in the queue: limits on the texts that the server holds, and on their waiting time."""

import math

from bertsmith.serving.problems import invalid, overloaded
from bertsmith.serving.waiting_time import WaitingTime
from bertsmith.system.memory import available_bytes

BYTES_PER_CHARACTER = 16
"""Bytes that a waiting character may take: in the body, as a string, and as token ids."""


def characters_to_hold(most: int) -> int:
    """Return the number of characters that may wait at a time, by the memory that is free now."""
    free = available_bytes()
    return most if free is None else max(1, min(most, free // BYTES_PER_CHARACTER))


class Places:
    """Places for texts; a request takes all that it needs at once, or none.

    Args:
        limit: number of texts, 1 or more.
        max_characters: number of characters of all these texts.
        max_seconds: seconds that a request may wait for its turn.
    """

    def __init__(self, limit: int, max_characters: int, max_seconds: float) -> None:
        self.limit = limit
        self.max_characters = max_characters
        self.max_seconds = max_seconds
        self.num_taken = 0
        self.num_characters = 0
        self.waiting_time = WaitingTime()

    def take(self, count: int, num_characters: int) -> None:
        """Take places for the texts of a request.

        Raises:
            Problem: 413 if the server has fewer places in all; 429 if too few are free now, or if
                the request would wait for more than `max_seconds`.
        """
        if count > self.limit or num_characters > self.max_characters:
            raise invalid(
                f"the request has {count:,} texts with {num_characters:,} characters, and this "
                f"server holds at most {self.limit:,} texts with {self.max_characters:,} "
                "characters at a time. Divide the request.",
                status=413,
            )
        if self.num_taken + count > self.limit:
            raise overloaded(
                f"the server is busy: {self.num_taken:,} of its {self.limit:,} places are taken. "
                "Send the request again in a moment.",
                self._seconds_until_room(),
            )
        if self.num_characters + num_characters > self.max_characters:
            raise overloaded(
                f"the server is busy with {self.num_characters:,} characters of text, of at most "
                f"{self.max_characters:,}. Send the request again in a moment.",
                self._seconds_until_room(),
            )
        seconds = self.waiting_time.seconds
        if seconds > self.max_seconds:
            raise overloaded(
                f"the server is busy: a new request waits for about {seconds:.0f} seconds, and may "
                f"wait for {self.max_seconds:g}. Send it again later.",
                self._seconds_until_room(),
            )
        self.num_taken += count
        self.num_characters += num_characters

    def _seconds_until_room(self) -> int:
        """Return the whole seconds until every request that waits now has had its turn."""
        return max(1, math.ceil(self.waiting_time.seconds))

    def give_back(self, count: int, num_characters: int) -> None:
        """Give places back, once their texts are computed or nobody waits for them any more."""
        self.num_taken -= count
        self.num_characters -= num_characters
