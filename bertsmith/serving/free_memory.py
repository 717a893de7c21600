"""The decision when the engine gives the system back the memory that its arrays no longer use.

Batches of different sizes leave holes between arrays, and so do long texts, whose words are many
small objects. An engine of all-MiniLM-L6-v2 had two threads, each with a heap of its own. Under
full load it grew from 513 to 666 MB in two minutes (a Zen 5). The engine now has one heap, and
gives free memory back. Most of that memory is needed again by the next batch. So under load the
engine gives memory back only if the process has grown; after each fixed number of batches, the size
of the process would go up and down all the time.
"""

import os

from bertsmith.system.memory import resident_bytes
from bertsmith.system.process_options import give_free_memory_back

BATCHES_BETWEEN_CHECKS = 10
"""Number of full batches after which the memory is checked."""
MAX_GROWTH = 1.04
"""While requests wait, memory is given back only if the process has grown by more than this factor
since the first check after memory was given back."""


class FreeMemory:
    """The free memory of this process, which is given back from time to time.

    Args:
        batch_tokens: number of tokens of a full batch.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._tokens_between_checks = BATCHES_BETWEEN_CHECKS * batch_tokens
        self._num_tokens = 0
        self._usual_bytes: int | None = None
        """Memory of the process at the first check after memory was given back."""

    def add(self, num_tokens: int) -> None:
        """Count tokens that were computed, or work that fragments the memory as much."""
        self._num_tokens += num_tokens

    def give_back(self, *, is_idle: bool) -> None:
        """Give free memory back if the process is idle, or if it has grown.

        Until `BATCHES_BETWEEN_CHECKS` full batches have been computed, this does nothing.
        """
        if self._num_tokens < self._tokens_between_checks:
            return
        self._num_tokens = 0
        num_bytes = resident_bytes([os.getpid()])  # None if the system does not tell
        if is_idle or num_bytes is None or self._has_grown(num_bytes):
            give_free_memory_back()
            self._usual_bytes = None
        elif self._usual_bytes is None:
            self._usual_bytes = num_bytes

    def _has_grown(self, num_bytes: int) -> bool:
        return self._usual_bytes is not None and num_bytes > MAX_GROWTH * self._usual_bytes
