"""Find the files that a user's paths name, and open their decompressed bytes.

Paths may be files, folders (searched recursively) or globs. The files are sorted, so the order of
the arguments does not affect the result. Compressed files are decompressed while reading.
"""

import glob
import gzip
import io
import itertools
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, get_args

from bertsmith.data.remote_files import RemoteFile, find_remote_files, is_url
from bertsmith.errors import InputError, read_error
from bertsmith.system.git_lfs import describe_pointer, is_pointer_file
from bertsmith.system.paths import shell_path

SourcePath = Path | RemoteFile
Format = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
Compression = Literal["gz", "xz", "zst"]

FORMATS: tuple[Format, ...] = get_args(Format)
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)
ALLOWED_ENDINGS = "Allowed: .txt, .jsonl, .csv, .tsv, .parquet, each also as .gz, .xz or .zst."

UNPACKED_BY = {
    "bz2": "bunzip2 -k", "zip": "unzip", "7z": "7z x", "rar": "unrar x", "tar": "tar -xf",
    "tgz": "tar -xf", "lz4": "lz4 -d", "lzma": "unlzma -k", "br": "brotli -d", "z": "uncompress -k",
}  # fmt: skip
"""Commands for endings of compressed files and archives that are not read."""

_BUFFER_BYTES = 1 << 20
# Four bytes of Zstandard may decompress to 128 KiB, so this much input gives at most 32 MiB at
# once, whatever the content; xz gives less.
_INPUT_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class Source:
    """A file of documents, with its format and compression."""

    path: SourcePath
    format: Format
    compression: Compression | None

    @classmethod
    def from_name(cls, path: SourcePath) -> "Source | None":
        """Parse format and compression from a file's name; None if unknown."""
        format_ = next((name for name in FORMATS if name == ending_of(path)), None)
        return cls(path, format_, compression_of(path)) if format_ else None


def compression_of(path: SourcePath) -> Compression | None:
    """Return the compression by the ending of a file's name; None if there is none."""
    ending = path.name.lower().rpartition(".")[2]
    return next((name for name in COMPRESSIONS if name == ending), None)


def ending_of(path: SourcePath) -> str:
    """Return the ending of a file's name in lower case, without that of its compression."""
    name = path.name.lower().removesuffix(f".{compression_of(path)}")
    return name.rpartition(".")[2] if "." in name else ""


def ending_in_words(path: Path) -> str:
    """Describe the ending of a file's name, for messages."""
    return f"its name ends in {path.suffix}" if path.suffix else "its name has no ending"


def check_not_packed(path: Path) -> None:
    """Refuse an archive, or a file with an unsupported compression, by its name."""
    ending = ending_of(path)
    if command := UNPACKED_BY.get(ending):
        raise InputError(
            f"{path}: a compressed file or archive of a kind that is not read (.{ending}). Unpack "
            f"it ({command} {shell_path(path)}), and give its content. Compressed files may be "
            ".gz, .xz or .zst."
        )


def find_sources(paths: Iterable[str | Path]) -> tuple[list[Source], Counter[str]]:
    """Find the files that `paths` name, sorted, each once.

    The counter has the number of files that are not read: `unsupported_files` in folders and globs,
    and `repeated_files`, which are the same file by another path or link. Hidden files in folders
    are ignored.

    Raises:
        InputError: a path does not exist, or a folder, glob or file has nothing to read.
    """
    left_aside: Counter[str] = Counter()
    all_sources: list[Source] = []
    for path in paths:
        sources, unsupported = _expand(str(path))
        all_sources += sources
        left_aside["unsupported_files"] += unsupported
    all_sources.sort(key=lambda source: source.path.as_posix())
    unique: dict[Hashable, Source] = {}
    for source in all_sources:
        unique.setdefault(identity(source), source)
    left_aside["repeated_files"] = len(all_sources) - len(unique)
    return list(unique.values()), +left_aside


def _expand(name: str) -> tuple[list[Source], int]:
    if not name:
        raise InputError("A file's name is empty. Is the shell variable set?")
    files: Sequence[SourcePath]
    path = Path(name)
    if is_url(name):
        files = find_remote_files(name)
        if not files:
            raise InputError(f"{name}: no file found. Check the address. {ALLOWED_ENDINGS}")
    elif path.is_dir():
        files = list(_walk(path))
    elif path.exists():
        source = Source.from_name(path)
        if source is None:
            check_not_packed(path)
            raise InputError(f"{path}: the name's ending is not known. {ALLOWED_ENDINGS}")
        return [source], 0
    elif glob.has_magic(name):
        matches = [Path(match) for match in glob.glob(name, recursive=True)]  # noqa: PTH207
        path_groups = (_walk(match) if match.is_dir() else [match] for match in sorted(matches))
        files = list(dict.fromkeys(itertools.chain.from_iterable(path_groups)))
    else:
        raise InputError(f"{path}: no such file or folder. Check the spelling.")
    texts = [file for file in files if not _is_vocabulary(file)]
    sources = [source for file in texts if (source := Source.from_name(file))]
    if not sources:
        raise _nothing_readable(name, files)
    return sources, len(files) - len(sources)


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise read_error(InputError, error.filename, error) from error

    seen = {os.path.realpath(folder)}  # a link may lead back
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        real_paths = {name: os.path.realpath(Path(parent, name)) for name in sorted(folders)}
        folders[:] = [n for n in real_paths if not n.startswith(".") and real_paths[n] not in seen]
        seen.update(real_paths[name] for name in folders)
        yield from (Path(parent, name) for name in files if not name.startswith("."))


def _is_vocabulary(file: SourcePath) -> bool:
    """Return whether a file in a folder is a vocabulary, and so not one of the texts."""
    if not isinstance(file, Path):
        return False
    is_list = file.name in ("vocab.txt", "merges.txt")
    return is_list and file.with_name("tokenizer_config.json").exists()


def _nothing_readable(name: str, files: Sequence[SourcePath]) -> InputError:
    if not files:
        return InputError(f"{name}: no file found. Check the spelling. {ALLOWED_ENDINGS}")
    endings = Counter(file.suffix.lower() or "no ending" for file in files)
    ending_counts = ", ".join(f"{count} × {ending}" for ending, count in endings.most_common(5))
    return InputError(f"{name}: no file that can be read, found {ending_counts}. {ALLOWED_ENDINGS}")


def identity(source: Source) -> Hashable:
    """Return device and inode, equal for a file under all its names; of a remote one the address.

    Raises:
        InputError: the file cannot be read.
    """
    if isinstance(source.path, RemoteFile):
        return source.path
    try:
        status = source.path.stat()
    except OSError as error:
        raise read_error(InputError, source.path, error) from error
    return status.st_dev, status.st_ino


@contextmanager
def open_path(
    path: SourcePath, compression: Compression | None, on_read: Callable[[int], None]
) -> Iterator[io.BufferedReader]:
    """Open a file's decompressed bytes; `on_read` gets the number of bytes read.

    Raises:
        InputError: the file is damaged or truncated; raised also while reading.
    """
    if isinstance(path, Path) and path.is_file() and is_pointer_file(path):
        raise InputError(describe_pointer(path))
    try:
        with _CountingReader(path, on_read) as raw:
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
    def __init__(self, path: SourcePath, on_read: Callable[[int], None]) -> None:
        self._file: Any = path.open("rb", buffering=0)
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

    def close(self) -> None:
        self._file.close()
        super().close()


def _decompressed(raw: io.RawIOBase, compression: Compression | None) -> Any:
    if compression is None:
        return raw
    buffered = io.BufferedReader(raw, _BUFFER_BYTES)
    if compression == "gz":
        return gzip.GzipFile(fileobj=buffered)
    return _XzReader(buffered) if compression == "xz" else _ZstdReader(buffered)


class _StreamReader(io.RawIOBase):
    """Decompressed bytes of streams, one after another.

    The libraries' readers stop without an error at some truncations, and at a damaged beginning of
    a later stream. Here an incomplete last stream is an EOFError, and other bytes after a stream
    are an error, too.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._file.read(_INPUT_BYTES)
            if not chunk:
                if self._stream:
                    raise EOFError
                return 0
            self._ready = memoryview(b"".join(self._decompress(chunk)))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, chunk: bytes) -> Iterator[bytes]:
        while chunk and (chunk := chunk if self._stream else self._begin(chunk)):
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
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def _begin(self, chunk: bytes) -> bytes:
        head = chunk.lstrip(b"\0")
        if head:
            self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        return head


class _WideWindowError(Exception):
    """A Zstandard frame needs a window above the library's limit of 128 MiB."""


class _ZstdReader(_StreamReader):
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
