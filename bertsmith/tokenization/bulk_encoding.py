"""WordPiece tokenization of many texts at once by numpy, with the ids of encoding text by text.

Texts are cut as bytes: at white space, and on both sides of ASCII punctuation. No rule of BERT's
reaches across such a cut. So the ids of each distinct chunk, the bytes between two cuts, are
computed once, by the ordinary tokenizer, and cached. numpy cuts, looks up and gathers all chunks of
a block of texts together. It looks a chunk up by its key, two integers with the bytes of the chunk.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bertsmith.system.forks import ForkSafeLock
from bertsmith.tokenization.chunk_table import (
    NOT_FOUND,
    ChunkTable,
    Keys,
    chunk_keys,
    pad_for_keys,
)
from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.normalize import clean_character, code_ranges
from bertsmith.tokenization.piece_cutting import PieceCutter

Ids = NDArray[np.int32]
ChunkIds = Callable[[bytes], Sequence[int]]
"""Function that computes the ids of a chunk."""

BLOCK_BYTES = 1 << 18  # the arrays for a block fit into a processor's cache
# Largest number of cached chunks, and of their ids. Above it, with about 60 MB, the caches are
# cleared. 25 MB of English text have some 100,000 distinct chunks with 250,000 ids.
MAX_KEPT = 1 << 19
MAX_CACHED_BYTES = 64  # longer chunks recur too seldom to be cached

# The ids of all chunks are in one list. Where the ids of a chunk are is one integer, its id range:
# the lowest 24 bits are the number of its ids, and the others the index of the first one.
_COUNT_BITS = 24
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_SPACE, _PUNCTUATION, _PART = range(3)  # kinds of bytes, in the order in which `_cut` compares them


def _kind(byte: int) -> int:
    """Return the kind of a byte of UTF-8: white space, punctuation, or part of a chunk."""
    if byte > 127:  # part of a character that is not ASCII; the ordinary tokenizer looks at it
        return _PART
    if chr(byte) in code_ranges("PUNCTUATION"):
        return _PUNCTUATION
    return _SPACE if clean_character(chr(byte)) == " " else _PART


class _IdRanges(dict[bytes, int]):
    """Cache from a chunk to the range of its ids in `ids`, the list of all ids."""

    def __init__(self, compute: ChunkIds) -> None:
        super().__init__()
        self.ids = array("i")
        self._compute = compute

    def __missing__(self, chunk: bytes) -> int:
        ids = self._compute(chunk)
        id_range = len(self.ids) << _COUNT_BITS | len(ids)
        self.ids.extend(ids)
        if len(chunk) <= MAX_CACHED_BYTES:
            self[chunk] = id_range
        return id_range


class BulkEncoder:
    """Encoder of UTF-8 texts that caches the ids of chunks.

    Args:
        compute: returns the ids of a chunk; called for new chunks only.
        lowercase: whether `compute` ignores the case of letters.
        cutter: computes the ids of many new chunks at once; `compute` gets the chunks that it
            cannot cut.
    """

    def __init__(
        self, compute: ChunkIds, *, lowercase: bool, cutter: PieceCutter | None = None
    ) -> None:
        self._compute = compute
        self._cutter = cutter
        self._lowercase = lowercase
        self._kinds = bytes(map(_kind, range(256)))
        # `reset` is called in a forked child if a thread of the parent was changing the caches.
        self._lock = ForkSafeLock(reset=self._forget)
        self._forget()

    def _forget(self) -> None:
        """Clear the two caches: `_table` finds short chunks, many at once, `_id_ranges` all others.

        The ids of both are in `_id_ranges.ids`.
        """
        self._id_ranges = _IdRanges(self._compute)
        self._table = ChunkTable()

    def encode(self, texts: Iterable[bytes]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode texts.

        Return all ids, int32 `[tokens]`, and their counts by text, int64 `[texts]`.
        """
        blocks = []
        for block in group_by_size(texts, BLOCK_BYTES):
            # The lock is not held while the iterator `texts` yields the next block, since it may
            # call this encoder itself.
            with self._lock:
                blocks.append(self._encode_block(block))
        ids = [block_ids for block_ids, _ in blocks]
        counts = [block_counts for _, block_counts in blocks]
        no_ids, no_counts = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return np.concatenate([no_ids, *ids]), np.concatenate([no_counts, *counts])

    def _encode_block(self, texts: Sequence[bytes]) -> tuple[Ids, NDArray[np.int64]]:
        """Encode the texts of a block; the results are as in `encode`."""
        if max(len(self._id_ranges), len(self._id_ranges.ids)) > MAX_KEPT:
            self._forget()
        data = pad_for_keys(b" ".join([b"", *texts, b""]))
        starts, lengths = self._cut(data)
        id_ranges = self._find(data.lower() if self._lowercase else data, starts, lengths)
        counts = id_ranges & _COUNT_MASK
        ends = np.cumsum(counts)
        # The index of each token's id in the list of all ids: those of a chunk follow each other.
        shifts = (id_ranges >> _COUNT_BITS) - (ends - counts)
        indices = np.repeat(shifts, counts)
        indices += np.arange(len(indices))
        ids = np.frombuffer(self._id_ranges.ids, np.int32)[indices]
        # `data` has a space before each text, hence + 1.
        text_ends = np.cumsum([len(text) + 1 for text in texts])
        # Both numbers are up to the end of each text.
        num_chunks = np.searchsorted(starts, text_ends)
        num_ids = np.concatenate([[0], ends])[num_chunks]
        return ids, np.diff(num_ids, prepend=0)

    def _cut(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start and length in bytes of each chunk of `data`."""
        kinds = np.frombuffer(data.translate(self._kinds), np.uint8)
        before, after = kinds[:-1], kinds[1:]  # entry i: the kinds of bytes i and i + 1
        # A chunk begins where the kind rises, and at each punctuation mark; it ends where the kind
        # falls, and after each punctuation mark. Kinds rise from space to punctuation to part.
        starts = np.flatnonzero((after > before) | (after == _PUNCTUATION))
        ends = np.flatnonzero((before > after) | (before == _PUNCTUATION))
        return starts + 1, ends - starts  # both cuts are before byte i + 1

    def _find(
        self, data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the id range of each chunk, int64 `[chunks]`; compute the ids of new chunks.

        If there is a `_cutter`, it cuts the new short chunks of ASCII letters and digits, all at
        once. All others that `_table` lacks are looked up in `_id_ranges`, one by one.
        """
        keys = chunk_keys(data, starts, lengths)
        id_ranges = self._table.find(keys)
        missing = np.flatnonzero(id_ranges == NOT_FOUND)
        if self._cutter and len(missing):
            new = missing[keys.at(missing).distinct()]
            self._learn(keys.at(new), *self._cutter.cut(data, starts[new], lengths[new]))
            id_ranges[missing] = self._table.find(keys.at(missing))
            missing = missing[id_ranges[missing] == NOT_FOUND]
        first, end = starts[missing], starts[missing] + lengths[missing]
        chunks = map(data.__getitem__, map(slice, first.tolist(), end.tolist()))
        new_ranges = np.fromiter(map(self._id_ranges.__getitem__, chunks), np.int64, len(missing))
        id_ranges[missing] = new_ranges
        self._table.add(keys.at(missing), new_ranges)
        return id_ranges

    def _learn(self, keys: Keys, ids: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Cache the ids of the chunks that the cutter has cut, whose count is above 0."""
        firsts = len(self._id_ranges.ids) + np.cumsum(counts) - counts
        self._id_ranges.ids.frombytes(ids.astype(np.int32).tobytes())
        cut = np.flatnonzero(counts)
        self._table.add(keys.at(cut), (firsts << _COUNT_BITS | counts)[cut])
