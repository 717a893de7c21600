"""Write vectors to a .npy or .jsonl file as they come, whole or not at all."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.data.npy import NpyWriter
from bertsmith.errors import ConfigError
from bertsmith.system.files import atomic_write


class VectorWriter(Protocol):
    """Writer of vectors, fp32 `[texts, size]`, and the texts that they belong to."""

    def write(self, examples: Sequence[Example], vectors: NDArray[np.float32]) -> None: ...


@contextlib.contextmanager
def vector_writer(path: Path, size: int) -> Iterator[VectorWriter]:
    """Open a writer by the path's ending; the file appears if the block succeeds.

    Raises:
        InputError: the disk is full or the folder cannot be written.
    """
    check_format(path)
    if path.suffix == ".jsonl":
        with atomic_write(path, "w") as file:
            yield JsonWriter(file)
        return
    with atomic_write(path) as file:
        array = NpyWriter(file, np.dtype("<f4"), (size,))
        yield ArrayWriter(array)
        array.finish()


def check_format(path: Path) -> None:
    """Raise ConfigError for a path whose ending names no format of vectors."""
    if path.suffix not in (".npy", ".jsonl"):
        raise ConfigError(
            f"out: '{path.name}' ends in {path.suffix or 'nothing'}; vectors are written as .npy "
            "(an array for numpy) or .jsonl (one object per text)."
        )


class ArrayWriter:
    """Writer of one array `[texts, size]`."""

    def __init__(self, array: NpyWriter) -> None:
        self.array = array

    def write(self, examples: Sequence[Example], vectors: NDArray[np.float32]) -> None:
        self.array.append(vectors)


class JsonWriter:
    """Writer of one JSON object per text: row in the input file, text, vector."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, examples: Sequence[Example], vectors: NDArray[np.float32]) -> None:
        """Append lines; nine digits give every fp32 number back exactly."""
        for example, vector in zip(examples, vectors.tolist(), strict=True):
            texts: dict[str, Any] = {"row": example.row, "text": example.text}
            if example.pair is not None:
                texts["pair"] = example.pair
            start = json.dumps(texts, ensure_ascii=False)[:-1]
            numbers = ", ".join(f"{number:.9g}" for number in vector)
            self.file.write(f'{start}, "vector": [{numbers}]}}\n')
