"""WordPiece by numpy for many words of ASCII letters and digits.

In each round the longest token that begins the rest of a word is found for all words together, by
looking up all prefixes of the rest. Only tokens of ASCII letters and digits are known here, so a
chunk with any other character is left to the ordinary tokenizer.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bertsmith.tokenization.chunk_table import (
    MAX_CHUNK_BYTES,
    NOT_FOUND,
    ChunkTable,
    chunk_keys,
    pad,
)

Ints = NDArray[np.int64]


class PieceCutter:
    """Cutter of many words at once, with the tokens of `WordPiece`.

    Args:
        starts: tokens at the start of a word, with their ids.
        continuations: tokens inside a word, without their prefix, with their ids.
    """

    def __init__(self, starts: Mapping[str, int], continuations: Mapping[str, int]) -> None:
        self._starts = _table(starts)
        self._continuations = _table(continuations)

    def cut(self, data: bytes, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Cut chunks.

        Return all ids in order, int64 `[tokens]`, and their counts, int64 `[chunks]`. `starts` and
        `lengths` are in bytes of `data`, int64 `[chunks]`. A count of 0 means that the chunk could
        not be cut.
        """
        ids, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        starts = starts.copy()
        left = lengths.copy()
        table = self._starts
        active = np.flatnonzero((lengths <= MAX_CHUNK_BYTES) & ~_hold_zeros(data, starts, lengths))
        while len(active):
            piece_ids, sizes = _longest(table, data, starts[active], left[active])
            found = piece_ids != NOT_FOUND
            active, piece_ids, sizes = active[found], piece_ids[found], sizes[found]
            ids.append(piece_ids)
            owners.append(active)
            starts[active] += sizes
            left[active] -= sizes
            active = active[left[active] > 0]
            table = self._continuations
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        # The tokens of a chunk that has a rest left do not count: it could not be cut.
        order = order[left[owner[order]] == 0]
        return np.concatenate(ids)[order], np.bincount(owner[order], minlength=len(left))


def _hold_zeros(data: bytes, starts: Ints, lengths: Ints) -> NDArray[np.bool_]:
    # Keys are filled up with zero bytes, so they cannot tell such chunks from shorter ones.
    zeros = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
    return np.searchsorted(zeros, starts) < np.searchsorted(zeros, starts + lengths)


def _table(pieces: Mapping[str, int]) -> ChunkTable:
    short = {
        piece: id_
        for piece, id_ in pieces.items()
        if piece.isascii() and piece.isalnum() and len(piece) <= MAX_CHUNK_BYTES
    }
    data = pad("".join(short).encode())
    lengths = np.fromiter(map(len, short), np.int64, len(short))
    table = ChunkTable()
    keys = chunk_keys(data, np.cumsum(lengths) - lengths, lengths)
    table.add(keys, np.fromiter(short.values(), np.int64, len(short)))
    return table


def _longest(table: ChunkTable, data: bytes, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return id and size of the longest token that begins each chunk."""
    prefixes = chunk_keys(data, starts, lengths).prefixes()
    values = table.find(prefixes).reshape(-1, MAX_CHUNK_BYTES)
    last = MAX_CHUNK_BYTES - 1 - np.argmax(values[:, ::-1] != NOT_FOUND, axis=1)
    return values[np.arange(len(values)), last], np.minimum(last + 1, lengths)
