"""Write a .npy file as its rows come.

All bytes are written by `file.write`: the error of `numpy.save` does not say that a disk is full.
"""

from typing import IO, Any

import numpy as np


class NpyWriter:
    """Writer of an array `[rows, *row_shape]` that grows; `finish` corrects the number of rows."""

    def __init__(
        self, file: IO[bytes], dtype: np.dtype[Any], row_shape: tuple[int, ...] = ()
    ) -> None:
        self.file = file
        self.dtype = dtype
        self.shape = (0, *row_shape)
        self._write_header()

    def append(self, rows: np.ndarray) -> None:
        """Write `[count, *row_shape]` more, converted to the array's dtype."""
        self.file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])

    def finish(self) -> None:
        """Write the header again, with the number of rows."""
        self.file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        # numpy leaves room in the header for any number of rows, so the header keeps its size.
        descr = np.lib.format.dtype_to_descr(self.dtype)
        fields = {"descr": descr, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self.file, fields)
