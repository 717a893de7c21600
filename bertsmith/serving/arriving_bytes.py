"""A limit on the bytes of all bodies that are being read, so that they cannot fill the memory."""

from bertsmith.serving.problems import overloaded

BODIES_AT_A_TIME = 64
"""Number of bodies of the largest size that may be read at the same time."""


class ArrivingBytes:
    """Counter of the bytes that have arrived of bodies that are not complete yet."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_held = 0

    def add(self, count: int) -> None:
        """Add bytes that have arrived.

        Raises:
            Problem: 429 if there are too many.
        """
        if self.num_held + count > self.limit:
            raise overloaded(
                f"the server is busy: it holds {self.num_held:,} bytes of requests that are still "
                f"arriving, of at most {self.limit:,}. Send the request again in a moment."
            )
        self.num_held += count

    def subtract(self, count: int) -> None:
        """Subtract bytes, once their body is complete or will not be read to its end."""
        self.num_held -= count
