"""A dictionary for numpy: from short strings of bytes, many at a time, to integers.

A chunk of up to 16 bytes, filled up with zeros, is two 64-bit integers, its key. The key's hash
names one row of a table, which holds a key and its value; a look-up compares the whole key, so it
is never wrong. A key whose row belongs to another is not taken in: the caller asks elsewhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_CHUNK_BYTES = 16
NOT_FOUND = -1
# Bytes that have to stand behind the last chunk: a key is cut out of three whole words.
PADDING_BYTES = 24

ROW_BITS = 18  # 8 MB; with 16 bits half as many words of English text have a row of their own
_VALUE = 2  # a row: two words of the key, the value, and one to make it half a cache line
_FACTORS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
# The bits that n bytes fill, for n up to 16 and "more", in each of the two words.
_BITS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_LOW_BITS = _BITS[np.minimum(np.arange(MAX_CHUNK_BYTES + 2), 8)]
_HIGH_BITS = _BITS[np.clip(np.arange(MAX_CHUNK_BYTES + 2) - 8, 0, 8)]


class Keys(NamedTuple):
    """The keys of chunks, all arrays `[chunks]`; those of long chunks mean nothing."""

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    rows: NDArray[np.int64]
    """Which row of the table each key belongs to."""
    long: NDArray[np.bool_]
    """Chunks of more than `MAX_CHUNK_BYTES` bytes."""

    def at(self, places: NDArray[np.int64]) -> "Keys":
        """The keys in these places."""
        return Keys(self.low[places], self.high[places], self.rows[places], self.long[places])


def chunk_keys(data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Keys:
    """The keys of chunks of `data`, which is a multiple of 8 bytes long, padding included."""
    words = np.frombuffer(data, "<u8")
    first, shift = starts >> 3, ((starts & 7) << 3).view(np.uint64)
    middle = words.take(first + 1)
    # A word begins `shift` bits into an aligned one. A shift by 64 bits is not defined, hence two.
    opposite, one = np.uint64(63) - shift, np.uint64(1)
    fill = np.minimum(lengths, MAX_CHUNK_BYTES + 1)
    low = words.take(first) >> shift | middle << one << opposite
    low &= _LOW_BITS.take(fill)
    high = middle >> shift | words.take(first + 2) << one << opposite
    high &= _HIGH_BITS.take(fill)
    rows = (low ^ high * _FACTORS[0]) * _FACTORS[1] >> np.uint64(64 - ROW_BITS)
    return Keys(low, high, rows.view(np.int64), lengths > MAX_CHUNK_BYTES)


class ChunkTable:
    """Values, 0 or more, of as many keys as have a row to themselves."""

    def __init__(self) -> None:
        # All zero is a free row; a value is one less than what stands in its place.
        self._rows = np.zeros((1 << ROW_BITS, 4), np.int64)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The value of each key, `NOT_FOUND` where there is none."""
        rows = self._rows.take(keys.rows, axis=0)
        found = rows[:, 0] == keys.low.view(np.int64)
        found &= rows[:, 1] == keys.high.view(np.int64)
        found &= ~keys.long
        return np.where(found, rows[:, _VALUE] - 1, NOT_FOUND)

    def add(self, keys: Keys, values: NDArray[np.int64]) -> None:
        """Take in the keys whose rows are free; of two for one row the last."""
        free = np.flatnonzero((self._rows[keys.rows, _VALUE] == 0) & ~keys.long)
        low, high, rows, _ = keys.at(free)
        self._rows[rows, 0] = low.view(np.int64)
        self._rows[rows, 1] = high.view(np.int64)
        self._rows[rows, _VALUE] = values[free] + 1
