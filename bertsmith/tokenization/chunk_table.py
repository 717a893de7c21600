"""Hash table for numpy, from short byte strings to integers.

The key of a chunk of up to 16 bytes is the chunk filled up with zeros, as two 64-bit integers. The
key's hash selects a row, which holds a key and its value; a key whose row is taken goes to the next
free row. A look-up takes many keys at a time. It compares whole keys, so it is never wrong, except
that zero bytes at a chunk's end do not count; WordPiece removes them anyway.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_CHUNK_BYTES = 16
NOT_FOUND = -1

ROW_BITS = 18  # 8 MB
MAX_KEYS = 1 << (ROW_BITS - 1)
# A row has four columns, half a cache line: the two words of the key, the value, and the place of
# the key among those that were inserted together.
_VALUE = 2
_ORDER = 3
_FACTORS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd, with random bits
# Masks of the first n bytes in each of the two words, for n up to 16.
_BITS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_LOW_BITS = _BITS[np.minimum(np.arange(MAX_CHUNK_BYTES + 1), 8)]
_HIGH_BITS = _BITS[np.clip(np.arange(MAX_CHUNK_BYTES + 1) - 8, 0, 8)]


class Keys(NamedTuple):
    """Keys of chunks, all arrays `[chunks]`; keys of long chunks are meaningless.

    `low` and `high` are the first 8 bytes of a chunk and the next 8; bytes beyond its end are zero.
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    row_indices: NDArray[np.int64]
    """Row of the table in which each key is looked for."""
    long: NDArray[np.bool_]
    """Mask of chunks of more than `MAX_CHUNK_BYTES` bytes."""

    def at(self, indices: NDArray[np.int64]) -> "Keys":
        """Return the keys at `indices`, int64 `[kept]`, in that order."""
        return Keys(
            self.low[indices], self.high[indices], self.row_indices[indices], self.long[indices]
        )

    def distinct(self) -> NDArray[np.int64]:
        """Return the index of the first of each distinct key, rising: int64 `[distinct]`.

        Of long chunks with the same beginning only the first is returned.
        """
        order = np.lexsort((self.low, self.high))
        low, high = self.low[order], self.high[order]
        differs = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        return np.sort(order[np.concatenate([[True], differs])])

    def in_next_rows(self) -> "Keys":
        """Move each key one row on, from the last to the first."""
        return self._replace(row_indices=(self.row_indices + 1) & ((1 << ROW_BITS) - 1))

    def match_rows(self, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compare each key with its row of a table, bool `[chunks]`; long chunks never match.

        `entries` are the contents of the keys' rows, int64 `[chunks, 4]`.
        """
        same: NDArray[np.bool_] = entries[:, 0] == self.low.view(np.int64)
        same &= entries[:, 1] == self.high.view(np.int64)
        same &= ~self.long
        return same

    def prefixes(self) -> "Keys":
        """Compute the keys of each chunk's first 1 to `MAX_CHUNK_BYTES` bytes.

        The keys of one chunk follow each other. A prefix longer than the chunk has the key of the
        whole chunk.
        """
        low = (self.low[:, None] & _LOW_BITS[1:]).ravel()
        high = (self.high[:, None] & _HIGH_BITS[1:]).ravel()
        return Keys(low, high, _hash_rows(low, high), self.long.repeat(MAX_CHUNK_BYTES))


def pad_for_keys(data: bytes) -> bytes:
    """Lengthen data so that `chunk_keys` can read three whole 64-bit words from any place on."""
    return data.ljust((len(data) + 3 * 8) // 8 * 8)


def chunk_keys(data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Keys:
    """Compute the keys of chunks of `data`, by their starts and lengths in bytes, int64 `[chunks]`.

    `data` comes from `pad_for_keys`.
    """
    words = np.frombuffer(data, "<u8")
    first = starts >> 3
    shift = ((starts & 7) << 3).view(np.uint64)
    middle = words.take(first + 1)
    # A chunk begins `shift` bits into an aligned word. Shifting by 64 is undefined, hence twice.
    opposite = np.uint64(63) - shift
    one = np.uint64(1)
    num_bytes = np.minimum(lengths, MAX_CHUNK_BYTES)
    low = (words.take(first) >> shift) | (middle << one << opposite)
    low &= _LOW_BITS.take(num_bytes)
    high = (middle >> shift) | (words.take(first + 2) << one << opposite)
    high &= _HIGH_BITS.take(num_bytes)
    return Keys(low, high, _hash_rows(low, high), lengths > MAX_CHUNK_BYTES)


def _hash_rows(low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the row in which each key is looked for: the highest `ROW_BITS` bits of its hash."""
    hashes = (low ^ (high * _FACTORS[0])) * _FACTORS[1]
    return (hashes >> np.uint64(64 - ROW_BITS)).view(np.int64)


class ChunkTable:
    """Hash table of at most `MAX_KEYS` keys; values are 0 or more."""

    def __init__(self) -> None:
        # A row of zeros is free, so values are stored plus one.
        self._table = np.zeros((1 << ROW_BITS, 4), np.int64)
        self._count = 0

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Look up the value of each key, int64 `[chunks]`; `NOT_FOUND` where there is none."""
        entries = self._table.take(keys.row_indices, axis=0)
        is_found = keys.match_rows(entries)
        values = np.where(is_found, entries[:, _VALUE] - 1, NOT_FOUND)
        elsewhere = np.flatnonzero(~(is_found | keys.long) & (entries[:, _VALUE] != 0))
        if len(elsewhere):
            values[elsewhere] = self.find(keys.at(elsewhere).in_next_rows())
        return values

    def add(self, keys: Keys, values: NDArray[np.int64]) -> None:
        """Add keys that the table lacks, with values int64 `[chunks]`.

        Equal keys must have equal values. Long keys are left out. Nothing is added if the table
        might then hold more than `MAX_KEYS`.
        """
        if self._count + len(values) <= MAX_KEYS:
            self._insert(keys, values)

    def _insert(self, keys: Keys, values: NDArray[np.int64]) -> None:
        """Put keys into their rows where these are free, and try the next row for the others."""
        free = np.flatnonzero((self._table[keys.row_indices, _VALUE] == 0) & ~keys.long)
        low, high, row_indices, _ = keys.at(free)
        # Of different keys for one free row the last gets it; the others go to the next rows.
        self._table[row_indices, 0] = low.view(np.int64)
        self._table[row_indices, 1] = high.view(np.int64)
        self._table[row_indices, _VALUE] = values[free] + 1
        # Counts the rows that were filled: each holds the number of the one key that got it.
        # `np.unique` takes far longer.
        order = np.arange(len(row_indices))
        self._table[row_indices, _ORDER] = order
        self._count += int(np.count_nonzero(self._table[row_indices, _ORDER] == order))
        is_stored = keys.match_rows(self._table[keys.row_indices])
        others = np.flatnonzero(~(is_stored | keys.long))
        if len(others):
            self._insert(keys.at(others).in_next_rows(), values[others])
