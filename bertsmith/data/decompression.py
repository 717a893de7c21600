"""Open the decompressed bytes of a file, which are decompressed while they are read."""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bertsmith.data.sources import Compression, SourcePath
from bertsmith.errors import InputError, read_error
from bertsmith.system.git_lfs import describe_pointer, is_pointer_file

_BUFFER_BYTES = 1 << 20
_INPUT_BYTES = 1 << 10
"""Compressed bytes that are read at once. Four bytes of Zstandard may decompress to 128 KiB, so
these give at most 32 MiB, whatever the content; xz gives less."""


@contextmanager
def open_path(
    path: SourcePath, compression: Compression | None, on_read: Callable[[int], None]
) -> Iterator[io.BufferedReader]:
    """Open a file's decompressed bytes.

    `on_read` is called with the number of bytes of each read from disk, before decompression.

    Raises:
        InputError: the file is damaged or truncated; raised also while reading.
    """
    # A pointer of Git LFS is a small file in place of a large one that was not fetched.
    if isinstance(path, Path) and path.is_file() and is_pointer_file(path):
        raise InputError(describe_pointer(path))
    try:
        with path.open("rb", buffering=0) as file, _CountingReader(file, on_read) as raw:
            yield io.BufferedReader(_decompressed(raw, compression), _BUFFER_BYTES)
    except EOFError as error:
        raise InputError(
            f"{path}: the .{compression} data ends too early. Copy or download the file again."
        ) from error
    except _WideWindowError as error:
        raise InputError(
            f"{path}: needs more than 128 MiB of memory to be decompressed (zstd --long=28 or more "
            "writes such files), or the file is damaged. Decompress it first (zstd -d --long=31)."
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"{path}: damaged, or not .{compression} data ({error}). "
            "Copy or download the file again, or correct its name."
        ) from error
    except OSError as error:
        raise read_error(InputError, path, error) from error


class _CountingReader(io.RawIOBase):
    """The bytes of an open file as they are on disk, counted while they are read."""

    def __init__(self, file: Any, on_read: Callable[[int], None]) -> None:
        self._file = file
        self._on_read = on_read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self._on_read(count)
        return count


def _decompressed(raw: io.RawIOBase, compression: Compression | None) -> Any:
    """Return a stream of the decompressed bytes of `raw`."""
    if compression is None:
        return raw
    buffered = io.BufferedReader(raw, _BUFFER_BYTES)
    if compression == "gz":
        return gzip.GzipFile(fileobj=buffered)
    return _XzReader(buffered) if compression == "xz" else _ZstdReader(buffered)


class _StreamReader(io.RawIOBase):
    """Decompressed bytes of a file that has one compressed stream or several, one after another.

    Files that were compressed apart and then joined have several. The libraries' readers stop
    without an error at some truncations, and at a damaged beginning of a later stream. Here an
    incomplete last stream is an EOFError, and other bytes after a stream are an error, too.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream: Any = None  # the library's decompressor; None between two streams
        self._ready = memoryview(b"")  # decompressed bytes that are not read yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._file.read(_INPUT_BYTES)
            if not chunk:  # the end of the file
                if self._stream:
                    raise EOFError
                return 0
            self._ready = memoryview(b"".join(self._decompress(chunk)))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._stream is None:
                chunk = self._begin(chunk)
                if not chunk:  # all of it was padding
                    return
            yield self._stream.decompress(chunk)
            chunk = self._stream.unused_data
            if self._stream.eof:
                self._stream = None

    def _begin(self, chunk: bytes) -> bytes:
        """Begin a stream, unless `chunk` is padding; return the bytes of `chunk` in the stream."""
        raise NotImplementedError


class _XzReader(_StreamReader):
    """Reader of .xz streams, with zeros between them."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        # Begun without data, so that an empty file is an incomplete stream.
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def _begin(self, chunk: bytes) -> bytes:
        head = chunk.lstrip(b"\0")
        if head:
            self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        return head


class _WideWindowError(Exception):
    """A .zst stream needs more memory (its window) than the library's limit of 128 MiB."""


class _ZstdReader(_StreamReader):
    """Reader of .zst streams, which Zstandard calls frames."""

    def _begin(self, chunk: bytes) -> bytes:
        import zstandard

        self._stream = zstandard.ZstdDecompressor().decompressobj()
        return chunk

    def _decompress(self, chunk: bytes) -> Iterator[bytes]:
        import zstandard

        try:
            yield from super()._decompress(chunk)
        except zstandard.ZstdError as error:
            if "too much memory" in str(error):
                raise _WideWindowError from error
            raise zlib.error(str(error)) from error
