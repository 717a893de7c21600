"""Divide files of documents into partitions, ranges of bytes that processes can read apart."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from bertsmith.data.decompression import open_path
from bertsmith.data.sources import Format, Source
from bertsmith.errors import InputError, read_error

DOCUMENT_ENDS: Mapping[Format, re.Pattern[bytes]] = {
    "txt": re.compile(rb"\n[ \t\r\v\f]*\n"),
    "jsonl": re.compile(rb"\n"),
}
"""Patterns that always end a document, by format; files of other formats are not divided."""

_SEARCHED_BYTES = 1 << 14, 1 << 18, 1 << 22
"""Bytes in which the end of a document is looked for, few at first: most documents are short."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The bytes of a file from `start` to before `end`, which hold whole documents.

    `end` is None for the rest of a file, often the whole file, which is read as a stream and not at
    once.
    """

    source: Source
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.source.path}: bytes {self.start:,} to {self.end or 'the last'}"


def plan_partitions(sources: Iterable[Source], target_bytes: int) -> Iterator[Partition]:
    """Divide files into partitions of about `target_bytes`, in order.

    Files that are smaller, compressed or of a format without visible ends of documents stay whole,
    and so does the rest of a file in which no document ends for megabytes.

    Raises:
        InputError: a file cannot be read.
    """
    for source in sources:
        try:
            size = source.path.stat().st_size
            if source.compression or source.format not in DOCUMENT_ENDS or size <= target_bytes:
                yield Partition(source)
            else:
                with source.path.open("rb", buffering=0) as file:
                    yield from _divide(source, size, file, target_bytes)
        except OSError as error:
            raise read_error(InputError, source.path, error) from error


def _divide(source: Source, size: int, file: IO[bytes], target_bytes: int) -> Iterator[Partition]:
    """Divide an open file of `size` bytes into partitions."""
    start = 0
    end: int | None = 0
    while end is not None and start < size:
        end = size
        if size - start > target_bytes:
            end = _find_end(file, start + target_bytes, DOCUMENT_ENDS[source.format])
        yield Partition(source, start, end)
        start = end or size  # without an end, the partition was the rest of the file


def _find_end(file: IO[bytes], near: int, document_end: re.Pattern[bytes]) -> int | None:
    """Find where a document ends at byte `near` or later; None if none ends for megabytes."""
    for num_bytes in _SEARCHED_BYTES:
        file.seek(near)
        if match := document_end.search(file.read(num_bytes)):
            return near + match.end()
    return None


@contextmanager
def open_partition(
    partition: Partition, on_read: Callable[[int], None]
) -> Iterator[io.BufferedReader]:
    """Open a partition's decompressed bytes.

    `on_read` is called with the number of bytes of each read from disk.

    Raises:
        InputError: the file is damaged, or ends before the partition does; also raised later, while
            reading.
    """
    source, start, end = partition.source, partition.start, partition.end
    with open_path(source.path, source.compression, on_read) as stream:
        if start:
            stream.seek(start)
        if end is None:
            yield stream
        else:  # unbuffered, as a buffered read would also read what is behind the partition
            content = _read_range(source, stream.raw.read, end - start)
            yield io.BufferedReader(io.BytesIO(content))


def _read_range(source: Source, read: Callable[[int], bytes | None], num_bytes: int) -> bytes:
    """Read the next `num_bytes` of a file; `read` must be unbuffered, so that no more is read."""
    blocks: list[bytes] = []
    num_missing = num_bytes
    # A read may return fewer bytes than were asked for, and returns none at the end of the file.
    while num_missing and (block := read(num_missing)):
        blocks.append(block)
        num_missing -= len(block)
    if num_missing:
        raise InputError(
            f"{source.path}: became shorter while it was read ({num_missing:,} bytes are missing). "
            "Try again when no other program writes to the file."
        )
    return b"".join(blocks)
