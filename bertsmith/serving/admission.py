"""Admission control: limits on the texts that the server holds, and on their waiting time."""

import math

from bertsmith.serving.problems import invalid, overloaded
from bertsmith.serving.waiting_time import WaitingTime
from bertsmith.system.memory import available_bytes

BYTES_PER_CHARACTER = 16
"""Bytes that a waiting character may take: in the body, as a string, and as token ids."""


def fit_into_free_memory(max_characters: int) -> int:
    """Return `max_characters`, or as many as the memory that is free now can hold, if fewer."""
    free = available_bytes()
    if free is None:
        return max_characters
    return max(1, min(max_characters, free // BYTES_PER_CHARACTER))


class AdmissionControl:
    """Counts of the texts that the server holds: those that wait or are being computed.

    All texts of a request are admitted, or none.

    Args:
        max_queue: number of texts that may be held at a time, 1 or more.
        max_held_characters: number of characters that all held texts may have together.
        max_seconds: seconds that a request may wait for its turn.
    """

    def __init__(self, max_queue: int, max_held_characters: int, max_seconds: float) -> None:
        self.max_queue = max_queue
        self.max_held_characters = max_held_characters
        self.max_seconds = max_seconds
        self.num_texts = 0
        self.num_characters = 0
        self.waiting_time = WaitingTime()

    def admit(self, count: int, num_characters: int) -> None:
        """Count the texts of a request as held.

        Raises:
            Problem: 413 if the request alone is above a limit; 429 if the texts that are held now
                leave no room for it, or if it would wait for more than `max_seconds`.
        """
        if count > self.max_queue or num_characters > self.max_held_characters:
            raise invalid(
                f"the request has {count:,} texts with {num_characters:,} characters, and this "
                f"server holds at most {self.max_queue:,} texts with "
                f"{self.max_held_characters:,} characters at a time. Divide the request.",
                status=413,
            )
        if self.num_texts + count > self.max_queue:
            raise overloaded(
                f"the server is busy with {self.num_texts:,} texts, of at most "
                f"{self.max_queue:,}. Send the request again in a moment.",
                self._seconds_until_room(),
            )
        if self.num_characters + num_characters > self.max_held_characters:
            raise overloaded(
                f"the server is busy with {self.num_characters:,} characters of text, of at most "
                f"{self.max_held_characters:,}. Send the request again in a moment.",
                self._seconds_until_room(),
            )
        seconds = self.waiting_time.seconds
        if seconds > self.max_seconds:
            raise overloaded(
                f"the server is busy: a new request waits for about {seconds:.0f} seconds, and may "
                f"wait for {self.max_seconds:g}. Send it again later.",
                self._seconds_until_room(),
            )
        self.num_texts += count
        self.num_characters += num_characters

    def _seconds_until_room(self) -> int:
        """Return the whole seconds until every request that waits now has had its turn."""
        return max(1, math.ceil(self.waiting_time.seconds))

    def release(self, count: int, num_characters: int) -> None:
        """Count texts as held no longer: they are computed, or their request was cancelled."""
        self.num_texts -= count
        self.num_characters -= num_characters
