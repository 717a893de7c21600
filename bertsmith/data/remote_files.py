"""Texts in object stores and other file systems of fsspec: s3://, gs://, https://, memory://, …

A remote file has the few methods of `pathlib.Path` that reading needs. Most stores need a package
of their own, such as s3fs, which fsspec's error names if it is missing.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

from bertsmith.errors import BertsmithError, InputError
from bertsmith.system.compute import is_installed

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_WEB_ADDRESS = re.compile("https?://", re.IGNORECASE)
_MAGIC = re.compile(r"[*?[]")


def is_url(name: str) -> bool:
    """Return whether a name of texts is an address such as s3://..., not a path.

    >>> is_url("s3://bucket/texts"), is_url("texts/a.txt")
    (True, False)
    """
    return _URL.match(name) is not None


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """File of a store, by its address."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The file's name; of a web address without its query, such as `?download=true`."""
        path = self.url.partition("?")[0] if _WEB_ADDRESS.match(self.url) else self.url
        return path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    def as_posix(self) -> str:
        return self.url

    def absolute(self) -> "RemoteFile":
        return self

    def resolve(self) -> "RemoteFile":
        return self

    def exists(self) -> bool:
        with _reading(self.url):
            system, path = _open_system(self.url)
            return bool(system.exists(path))

    def stat(self) -> SimpleNamespace:
        """Return an object with the size in bytes, and a number that changes with the file."""
        with _reading(self.url):
            system, path = _open_system(self.url)
            # fsspec's checksum is a number that changes with the file.
            size, version = system.size(path), system.checksum(path)
            return SimpleNamespace(st_size=int(size or 0), st_mtime_ns=int(version))

    def open(self, mode: str = "rb", buffering: int = -1) -> io.BufferedReader:
        """Open for reading; the store decides what is buffered."""
        with _reading(self.url):
            system, path = _open_system(self.url)
            return io.BufferedReader(_Raw(self.url, system.open(path, mode)))


class _Raw(io.RawIOBase):
    """Bytes of an open remote file; errors of the store name its address."""

    def __init__(self, url: str, file: Any) -> None:
        self._url = url
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _reading(self._url):
            return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        with _reading(self._url):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def find_remote_files(name: str) -> list[RemoteFile]:
    """Find the files of an address: a file, all below a folder, or those of a pattern.

    Hidden files in folders are left out.

    Raises:
        InputError: there is nothing, the store cannot be reached, or its package is missing.
    """
    with _reading(name):
        system, path = _open_system(name)
        if _MAGIC.search(path):
            names_hidden_files = path.rpartition("/")[2].startswith(".")
            paths = [
                file_path
                for file_path in system.glob(path)
                if not system.isdir(file_path)
                and (names_hidden_files or not file_path.rpartition("/")[2].startswith("."))
            ]
        elif system.isdir(path):
            paths = [
                file_path
                for file_path in system.find(path)
                if not any(part.startswith(".") for part in file_path[len(path) :].split("/"))
            ]
        else:
            paths = [path] if system.exists(path) else []
        return [RemoteFile(system.unstrip_protocol(file_path)) for file_path in sorted(paths)]


def _open_system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and the path in this file system.

    Raises:
        InputError: the store is not known, or its package is missing.
    """
    if not is_installed("fsspec"):
        raise InputError(
            f"{url}: texts in stores are read by the package fsspec, which is not installed. Run: "
            "pip install fsspec, and the package of the store, such as s3fs or gcsfs."
        )
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: the package that reads this store is not installed ({error}). Install it, on "
            "all machines."
        ) from error
    except ValueError as error:
        raise InputError(f"{url}: the store is not known ({error}).") from error


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Convert the errors of a store's library, of many kinds, to InputErrors with the address."""
    try:
        yield
    except BertsmithError:
        raise
    except Exception as error:
        cause = str(error).strip() or type(error).__name__
        raise InputError(
            f"{url}: cannot be read ({cause}). Check the address, and your rights there."
        ) from error
