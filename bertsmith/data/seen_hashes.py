"""Set of 64-bit hashes: sorted tables, of which the large ones are files.

A million hashes take 8 MB, on disk beyond the first two million; as a Python set they would take
ten times as much of memory.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.system.scratch_folder import ScratchFolder

MAX_IN_MEMORY = 1 << 21
"""Hashes of a table in memory; a larger table is a file."""
ROWS_AT_ONCE = 1 << 18


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
        values, first = np.unique(np.array(hashes, np.uint64), return_index=True)
        is_new = np.ones(len(values), bool)
        for table in self._tables:
            indices = np.minimum(np.searchsorted(table, values), len(table) - 1)
            is_new &= table[indices] != values
        if is_new.any():
            self._add_table(values[is_new])
        new = np.zeros(len(hashes), bool)
        new[first[is_new]] = True
        return new

    def _add_table(self, table: np.ndarray) -> None:
        while self._tables and len(self._tables[-1]) <= 2 * len(table):
            table = self._merged(self._tables.pop(), table)
        self._tables.append(table)

    def _merged(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        if len(one) + len(other) <= MAX_IN_MEMORY:
            return np.sort(np.concatenate([one, other]), kind="stable")
        one, other = sorted((one, other), key=len, reverse=True)  # it is read in blocks
        path = self.new_path(".bin")
        with path.open("wb") as file:
            start = 0
            for end in range(ROWS_AT_ONCE, len(one) + ROWS_AT_ONCE, ROWS_AT_ONCE):
                block = one[end - ROWS_AT_ONCE : end]
                is_last = end >= len(one)
                stop = len(other) if is_last else int(np.searchsorted(other, block[-1]))
                rows = np.concatenate([block, other[start:stop]])
                file.write(np.sort(rows, kind="stable").data)
                start = stop
        for merged in (one, other):
            _remove(merged)
        return np.memmap(path, np.uint64, mode="r")


def _remove(table: Any) -> None:
    """Remove the file of a table, which stays readable as long as it is mapped."""
    if isinstance(table, np.memmap) and table.filename is not None:
        Path(table.filename).unlink(missing_ok=True)
