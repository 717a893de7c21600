"""Write vectors to a .npy or .jsonl file a portion at a time; it appears only when complete."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.data.npy import NpyWriter
from bertsmith.errors import SettingError
from bertsmith.system.files import atomic_write

WriteVectors = Callable[[Sequence[Example], NDArray[np.float32]], None]
"""A function that writes some examples with their vectors, fp32 `[examples, size]`."""


@contextlib.contextmanager
def vector_writer(path: Path, size: int) -> Iterator[WriteVectors]:
    """Open a writer of the format that the path's ending names; yield its function.

    The file appears when the block ends without an error.

    Raises:
        ConfigError: the ending names no format.
        InputError: the disk is full or the folder cannot be written.
    """
    check_format(path)
    if path.suffix == ".jsonl":
        with atomic_write(path, "w") as file:
            yield partial(_write_lines, file)
        return
    with atomic_write(path) as file:
        array = NpyWriter(file, np.dtype("<f4"), (size,))  # fp32, the same bytes on any machine
        yield lambda examples, vectors: array.append(vectors)
        array.finish()


def check_format(path: Path) -> None:
    """Check that a path's ending names a format of vectors.

    Raises:
        ConfigError: the ending names none.
    """
    if path.suffix not in (".npy", ".jsonl"):
        raise SettingError(
            "out",
            path,
            "a name that ends in .npy (an array for numpy) or .jsonl (one object per text)",
        )


def _write_lines(file: IO[str], examples: Sequence[Example], vectors: NDArray[np.float32]) -> None:
    """Write an object per text; nine digits give every fp32 number back exactly."""
    for example, vector in zip(examples, vectors.tolist(), strict=True):
        members = json.dumps(example.to_json(), ensure_ascii=False)[:-1]  # without the last brace
        numbers = ", ".join(f"{number:.9g}" for number in vector)
        file.write(f'{members}, "vector": [{numbers}]}}\n')
