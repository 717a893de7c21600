"""Many texts → their token ids in one array: the fast way, with the ids of the slow one.

Text is cut as bytes: at white space, and on both sides of ASCII punctuation. No rule of BERT's
reaches across such a cut, so the ids of a chunk between two cuts, whatever it holds, are worked
out once, by the rules for any text, and kept. Most chunks have been seen before. What is left to
do for those (cut, look up, gather) numpy does for all chunks of a block together.
"""

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bertsmith.text.chunk_table import NOT_FOUND, PADDING_BYTES, ChunkTable, Keys, chunk_keys
from bertsmith.text.grouping import group_by_size
from bertsmith.text.normalize import clean, code_ranges
from bertsmith.text.piece_cutting import PieceCutter

Ids = NDArray[np.int32]
ChunkIds = Callable[[bytes], Sequence[int]]

BLOCK_BYTES = 1 << 18  # the arrays for a block fit into a processor's cache
# So many chunks, or ids of them, are kept, about 60 MB; then all are forgotten. 25 MB of English
# text have some 100,000 different chunks with 250,000 ids.
MAX_KEPT = 1 << 19
LONGEST_KEPT = 64  # bytes; longer chunks come back too seldom to be worth their place

# A place is where the ids of a chunk begin, and in its lowest bits how many they are.
_COUNT_BITS = 24
_COUNT = (1 << _COUNT_BITS) - 1
_SPACE, _PUNCTUATION, _PART = range(3)


def _kind(code: int) -> int:
    """What a byte is; those above 127 are parts of characters which the rules will look at."""
    if code < 128 and chr(code) in code_ranges("PUNCTUATION"):
        return _PUNCTUATION
    return _SPACE if code < 128 and clean(chr(code)) == " " else _PART


class _Places(dict[bytes, int]):
    """Chunks and the places of their ids in `ids`."""

    def __init__(self, compute: ChunkIds) -> None:
        super().__init__()
        self.ids = array("i")
        self._compute = compute

    def __missing__(self, chunk: bytes) -> int:
        ids = self._compute(chunk)
        place = len(self.ids) << _COUNT_BITS | len(ids)
        self.ids.extend(ids)
        if len(chunk) <= LONGEST_KEPT:
            self[chunk] = place
        return place


class BulkEncoder:
    """Encodes texts that are UTF-8.

    Args:
        compute: the ids of a chunk; asked when it is new.
        lowercase: whether the case of letters makes no difference to `compute`.
        cutter: cuts what it can like `compute`, and many chunks at once.
    """

    def __init__(
        self, compute: ChunkIds, *, lowercase: bool, cutter: PieceCutter | None = None
    ) -> None:
        self._compute = compute
        self._cutter = cutter
        self._lowercase = lowercase
        self._kinds = bytes(map(_kind, range(256)))
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._places = _Places(self._compute)
        self._table = ChunkTable()

    def encode(self, texts: Iterable[bytes]) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of all texts, `[tokens]`, and how many each text has, `[texts]`."""
        with self._lock:
            blocks = [self._encode_block(block) for block in group_by_size(texts, BLOCK_BYTES)]
        ids = [block_ids for block_ids, _ in blocks]
        counts = [block_counts for _, block_counts in blocks]
        no_ids, no_counts = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return np.concatenate([no_ids, *ids]), np.concatenate([no_counts, *counts])

    def _encode_block(self, texts: Sequence[bytes]) -> tuple[Ids, NDArray[np.int64]]:
        if max(len(self._places), len(self._places.ids)) > MAX_KEPT:
            self._forget()
        data = b" ".join([b"", *texts, b""])
        data = data.ljust((len(data) + PADDING_BYTES) // 8 * 8)
        starts, lengths = self._cut(data)
        places = self._find(data.lower() if self._lowercase else data, starts, lengths)
        counts = places & _COUNT
        ends = np.cumsum(counts)
        shifts = (places >> _COUNT_BITS) - (ends - counts)
        gathered = np.repeat(shifts, counts)
        gathered += np.arange(len(gathered))
        ids = np.frombuffer(self._places.ids, np.int32)[gathered]
        text_ends = np.cumsum([len(text) + 1 for text in texts])
        last_chunks = np.searchsorted(starts, text_ends)
        return ids, np.diff(np.concatenate([[0], ends])[last_chunks], prepend=0)

    def _cut(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the chunks of `data` begin, and how many bytes they have."""
        kinds = np.frombuffer(data.translate(self._kinds), np.uint8)
        before, after = kinds[:-1], kinds[1:]
        # The order of the kinds makes one comparison tell that something begins or ends.
        starts = np.flatnonzero((after > before) | (after == _PUNCTUATION))
        ends = np.flatnonzero((before > after) | (before == _PUNCTUATION))
        return starts + 1, ends - starts

    def _find(
        self, data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The place of the ids of each chunk, those of new ones worked out now."""
        keys = chunk_keys(data, starts, lengths)
        places = self._table.find(keys)
        missing = np.flatnonzero(places == NOT_FOUND)
        if self._cutter and len(missing):
            new = missing[keys.at(missing).distinct()]
            self._learn(keys.at(new), *self._cutter.cut(data, starts[new], lengths[new]))
            places[missing] = self._table.find(keys.at(missing))
            missing = missing[places[missing] == NOT_FOUND]
        first, last = starts[missing], starts[missing] + lengths[missing]
        chunks = map(data.__getitem__, map(slice, first.tolist(), last.tolist()))
        found = np.fromiter(map(self._places.__getitem__, chunks), np.int64, len(missing))
        places[missing] = found
        self._table.add(keys.at(missing), found)
        return places

    def _learn(self, keys: Keys, ids: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Keep the ids of chunks that were cut, those with a count above 0."""
        firsts = len(self._places.ids) + np.cumsum(counts) - counts
        self._places.ids.frombytes(ids.astype(np.int32).tobytes())
        cut = np.flatnonzero(counts)
        self._table.add(keys.at(cut), (firsts << _COUNT_BITS | counts)[cut])
