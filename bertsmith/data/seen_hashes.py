"""A set of 64-bit hashes of documents, by which duplicates are found, in bounded memory.

It consists of sorted tables, of which the large ones are files. A million hashes take 8 MB, beyond
the first two million on disk. A Python set would take ten times as much memory.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.system.scratch_folder import ScratchFolder

MAX_IN_MEMORY = 1 << 21
"""Hashes of a table in memory; a larger table is a file."""
ROWS_AT_ONCE = 1 << 18
"""Hashes of the longer table that are merged at once: 2 MiB."""


class SeenHashes(ScratchFolder):
    """Growing set of hashes; a context manager, which removes its files.

    Tables are merged with others of their size, so there are few, and each hash is written a few
    times only.
    """

    def __init__(self) -> None:
        super().__init__("bertsmith-hashes-")
        self._tables: list[np.ndarray] = []

    def add(self, hashes: Sequence[int] | np.ndarray) -> np.ndarray:
        """Add hashes; return for each whether it is new, bool `[hashes]`."""
        distinct, first_indices = np.unique(np.array(hashes, np.uint64), return_index=True)
        is_distinct_new = np.ones(len(distinct), bool)
        for table in self._tables:
            # For a hash above all in the table any index will do, since a different hash is there.
            indices = np.minimum(np.searchsorted(table, distinct), len(table) - 1)
            is_distinct_new &= table[indices] != distinct
        if is_distinct_new.any():
            self._add_table(distinct[is_distinct_new])
        # Of equal hashes in one call, only the first is new.
        is_new = np.zeros(len(hashes), bool)
        is_new[first_indices[is_distinct_new]] = True
        return is_new

    def _add_table(self, table: np.ndarray) -> None:
        while self._tables and len(self._tables[-1]) <= 2 * len(table):
            table = self._merge(self._tables.pop(), table)
        self._tables.append(table)

    def _merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Merge two sorted tables without common hashes, in memory or to a new file."""
        if len(one) + len(other) <= MAX_IN_MEMORY:
            return np.sort(np.concatenate([one, other]), kind="stable")
        shorter, longer = sorted((one, other), key=len)
        path = self.new_path(".bin")
        with path.open("wb") as file:
            # Each block of the longer table is written together with the hashes of the shorter one
            # that are below the block's last hash; the last block takes all that are left.
            start = 0
            for end in range(ROWS_AT_ONCE, len(longer) + ROWS_AT_ONCE, ROWS_AT_ONCE):
                block = longer[end - ROWS_AT_ONCE : end]
                is_last = end >= len(longer)
                stop = len(shorter) if is_last else int(np.searchsorted(shorter, block[-1]))
                hashes = np.concatenate([block, shorter[start:stop]])
                file.write(np.sort(hashes, kind="stable").data)
                start = stop
        for table in (shorter, longer):
            _remove(table)
        return np.memmap(path, np.uint64, mode="r")


def _remove(table: Any) -> None:
    """Remove the file of a table, which stays readable as long as it is mapped."""
    if isinstance(table, np.memmap) and table.filename is not None:
        Path(table.filename).unlink(missing_ok=True)
