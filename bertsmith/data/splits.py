"""Divide the documents of a corpus into training and held-out ones, by hashes of their texts.

The text of a document decides, so equal documents are in the same split, and the order of the input
does not matter, with two exceptions. The first document is always for training, so that training
has one. And if documents are to be held out, but no hash says so, one is held out all the same,
provided that there are two different documents or more. The parts of a document that is too long to
be read whole are documents of their own: some may be in training and others held out.
"""

import math
from hashlib import blake2b
from typing import Generic, TypeVar

import numpy as np

from bertsmith.data.manifest import Split

DocumentT = TypeVar("DocumentT")


def text_hash(text: str) -> int:
    """Compute 64 bits of BLAKE2b of the text as UTF-8."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class HeldOutChoice(Generic[DocumentT]):
    """Assignment of a stream of documents to training or eval; call `finish` after the last.

    The first document is always for training, and so are its copies. Of the others, a document is
    for eval if its hash is below the limit, `share` times 2^64. While the eval split is empty, the
    document with the smallest hash so far waits, with its copies. It becomes the eval split if no
    hash turns out to be below the limit.
    """

    def __init__(self, share: float) -> None:
        self._limit = share * 2.0**64
        self._needs_no_waiting = share == 0
        self._first_hash: int | None = None
        self._waiting: DocumentT | None = None
        self._num_waiting = 0  # copies of the waiting document
        self._waiting_hash = 1 << 64

    def assign(self, document: DocumentT, text_hash: int) -> list[tuple[DocumentT, Split]]:
        """Return the documents whose split is now known, each with its split.

        They are `document`, or the copies of the document that waited so far, or both, or none.
        """
        if self._first_hash is None:
            self._first_hash = text_hash
        if text_hash == self._first_hash:
            return [(document, "train")]
        if text_hash < self._limit:  # the eval split has a document now
            self._needs_no_waiting = True
            return [*self._release("train"), (document, "held_out")]
        if self._needs_no_waiting or text_hash > self._waiting_hash:
            return [(document, "train")]
        released = [] if text_hash == self._waiting_hash else self._release("train")
        self._waiting, self._waiting_hash = document, text_hash
        self._num_waiting += 1
        return released

    @property
    def needs_no_waiting(self) -> bool:
        """Whether the split of each further document follows from its hash alone."""
        return self._needs_no_waiting

    def are_held_out(self, text_hashes: np.ndarray) -> np.ndarray:
        """Return for each document whether it is for eval, bool `[documents]`.

        Call this only if `needs_no_waiting`. `text_hashes` are uint64 `[documents]`.
        """
        limit = math.ceil(self._limit)
        if limit >= 1 << 64:
            is_below = np.ones(len(text_hashes), bool)
        else:
            is_below = text_hashes < np.uint64(limit)
        if self._first_hash is not None:
            is_below &= text_hashes != np.uint64(self._first_hash)
        return is_below

    def finish(self) -> list[tuple[DocumentT, Split]]:
        """Return the copies of the document that still waits, now for eval."""
        return self._release("held_out")

    def _release(self, split: Split) -> list[tuple[DocumentT, Split]]:
        """Return the copies of the waiting document, now of a split; none if no document waits."""
        released = [] if self._waiting is None else [(self._waiting, split)] * self._num_waiting
        self._waiting, self._num_waiting = None, 0
        return released
