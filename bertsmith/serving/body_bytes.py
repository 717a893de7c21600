"""Bytes of the bodies that are being read, which many clients together may not fill memory with."""

from bertsmith.serving.problems import overloaded

BODIES_AT_A_TIME = 64
"""Number of bodies of the largest size that are read at a time."""


class BodyBytes:
    """Counts bytes that have arrived, of requests whose bodies are not complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_held = 0

    def take(self, count: int) -> None:
        """Add bytes that have arrived.

        Raises:
            Problem: 429 if there are too many.
        """
        if self.num_held + count > self.limit:
            raise overloaded(
                f"the server is busy: it reads {self.num_held:,} bytes of other requests, and at "
                f"most {self.limit:,}. Send the request again in a moment."
            )
        self.num_held += count

    def give_back(self, count: int) -> None:
        """Subtract bytes, when their body is complete or given up."""
        self.num_held -= count
