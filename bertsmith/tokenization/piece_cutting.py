"""WordPiece by numpy, for many words of ASCII letters and digits at once.

Each round finds, for all words together, the longest token that begins the uncut rest of the word,
by looking up all prefixes of the rest. Only tokens of ASCII letters and digits are known here.
Words come as chunks, the bytes between two white spaces or punctuation marks of a text. A chunk
with any other character is left to the ordinary tokenizer.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bertsmith.tokenization.chunk_table import (
    MAX_CHUNK_BYTES,
    NOT_FOUND,
    ChunkTable,
    chunk_keys,
    pad_for_keys,
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
        """Cut chunks; a chunk that cannot be cut has no tokens.

        Args:
            data: the bytes that hold the chunks, from `chunk_table.pad_for_keys`.
            starts: the first byte of each chunk, int64 `[chunks]`.
            lengths: the number of bytes of each chunk, int64 `[chunks]`.

        Returns:
            All ids in order, int64 `[tokens]`, and the number of ids of each chunk, int64
            `[chunks]`.
        """
        ids_of_rounds, chunks_of_rounds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        starts = starts.copy()  # where the uncut rest of each chunk begins
        left = lengths.copy()  # the number of bytes of this rest
        table = self._starts
        # The chunks that could be cut in all rounds so far, and have a rest.
        active = np.flatnonzero((lengths <= MAX_CHUNK_BYTES) & ~_hold_zeros(data, starts, lengths))
        while len(active):
            piece_ids, sizes = _longest(table, data, starts[active], left[active])
            is_cut = piece_ids != NOT_FOUND
            active, piece_ids, sizes = active[is_cut], piece_ids[is_cut], sizes[is_cut]
            ids_of_rounds.append(piece_ids)
            chunks_of_rounds.append(active)
            starts[active] += sizes
            left[active] -= sizes
            active = active[left[active] > 0]
            table = self._continuations
        ids, chunks = np.concatenate(ids_of_rounds), np.concatenate(chunks_of_rounds)
        order = np.argsort(chunks, kind="stable")
        # A chunk of which a rest is left could not be cut: its tokens do not count.
        order = order[left[chunks[order]] == 0]
        return ids[order], np.bincount(chunks[order], minlength=len(left))


def _hold_zeros(data: bytes, starts: Ints, lengths: Ints) -> NDArray[np.bool_]:
    """Return whether each chunk has a zero byte.

    The key by which a chunk is looked up is its bytes, filled up with zero bytes. So a chunk that
    has zero bytes itself may have the key of a shorter one.
    """
    zeros = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
    return np.searchsorted(zeros, starts) < np.searchsorted(zeros, starts + lengths)


def _table(pieces: Mapping[str, int]) -> ChunkTable:
    """Build a table from pieces of ASCII letters and digits to ids; other pieces are left out."""
    short = {
        piece: id_
        for piece, id_ in pieces.items()
        if piece.isascii() and piece.isalnum() and len(piece) <= MAX_CHUNK_BYTES
    }
    data = pad_for_keys("".join(short).encode())
    lengths = np.fromiter(map(len, short), np.int64, len(short))
    table = ChunkTable()
    keys = chunk_keys(data, np.cumsum(lengths) - lengths, lengths)
    table.add(keys, np.fromiter(short.values(), np.int64, len(short)))
    return table


def _longest(table: ChunkTable, data: bytes, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return id and size in bytes of the longest token that begins each chunk, int64 `[chunks]`.

    The id is `NOT_FOUND` if no token begins the chunk.
    """
    prefixes = chunk_keys(data, starts, lengths).prefixes()
    ids = table.find(prefixes).reshape(-1, MAX_CHUNK_BYTES)  # column n: prefix of n + 1 bytes
    longest = MAX_CHUNK_BYTES - 1 - np.argmax(ids[:, ::-1] != NOT_FOUND, axis=1)
    # A prefix longer than the chunk is the whole chunk.
    return ids[np.arange(len(ids)), longest], np.minimum(longest + 1, lengths)
