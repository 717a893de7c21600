"""Writes that happen whole or not at all, and checksums.

A file is written beside its place and renamed over it, so a reader, a crash or a full disk
never meets half of it. A folder is built under a temporary name and swapped in last.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertsmith.errors import ConfigError, InputError


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    Of a link the target is replaced. What exists and is no file, such as a pipe or /dev/null,
    cannot be replaced and is written to straight away.

    Raises:
        InputError: the disk is full or the folder cannot be written; `path` is as it was.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with _open(path, mode) as file:
                yield file
        else:
            with _replacing(Path(os.path.realpath(path)), mode) as file:
                yield file
    except OSError as error:
        raise write_error(path, error) from error


def check_outputs(outputs: Mapping[str, Path | None], read: Path | None) -> None:
    """Refuse to write over what is read, two results to one file, or over a folder; to be called
    before both.

    Args:
        outputs: where something is written to, by the flag that says so.
        read: the file that is read.

    Raises:
        ConfigError: names the flag.
    """
    taken = {"what is read": read}
    for flag, path in outputs.items():
        if path is not None and path.is_dir():
            raise ConfigError(f"{flag}: found '{path}', which is a folder. Choose a file in it.")
        for what, other in taken.items():
            if path is not None and other is not None and _is_same_file(path, other):
                raise ConfigError(f"{flag}: found '{path}', which is {what}. Choose another file.")
        taken[f"also {flag}"] = path


def _is_same_file(one: Path, other: Path) -> bool:
    """Whether both lead to one file, which need not be there yet; of pipes and devices none is."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _open(path: Path, mode: str) -> IO[Any]:
    text = "b" not in mode
    return path.open(mode, encoding="utf-8" if text else None, newline="\n" if text else None)


@contextlib.contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stopped_writes(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _open(temporary, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_stopped_writes(path: Path) -> None:
    """Remove what processes that are no more left of writes of `path`."""
    if sys.platform == "win32":  # where asking for a process by a signal would end it
        return
    name = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,9}})\.tmp")
    with contextlib.suppress(OSError):  # a folder that cannot be listed, or another was faster
        for leftover in path.parent.iterdir():
            if (found := name.fullmatch(leftover.name)) and not _is_alive(int(found[1])):
                leftover.unlink(missing_ok=True)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; keys keep their order."""
    with atomic_write(path, "w") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


@contextlib.contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `path` when the block ends without an error.

    Whatever stood at `path` is removed only after the new folder is complete; of a link, the
    target is replaced. What a process that was killed has left beside it is removed first.
    """
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(place)
        temporary, lock = _locked_folder(place)
    except OSError as error:
        raise write_error(path, error) from error
    try:
        yield temporary
        replaced = temporary.with_suffix(".old")
        if place.exists():
            place.rename(replaced)
        try:
            temporary.rename(place)
        except OSError:
            if replaced.exists():
                replaced.rename(place)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked_folder(path: Path) -> tuple[Path, int | None]:
    """A new folder beside `path`, and what locks it for as long as this process lives.

    It gets its name when the lock is on it, so one of that name without a lock is a leftover.
    """
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent))
    made.chmod(0o755)
    lock = try_lock(made)
    return made.rename(made.with_suffix(".tmp")), lock


def try_lock(folder: Path) -> int | None:
    """An open file that locks `folder`; None if it is locked already or cannot be locked here."""
    if sys.platform == "win32":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of folders for `path`; one in use is locked and stays."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.(tmp|old)")
    for leftover in [found for found in path.parent.iterdir() if name.fullmatch(found.name)]:
        if leftover.suffix == ".old" and not path.exists():
            continue  # killed between two renames: this is all there is
        with contextlib.suppress(OSError):  # another process may be faster
            if (lock := try_lock(leftover)) is not None:
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(lock)


def write_error(path: Path, error: OSError) -> InputError:
    """Say in one line why `path` could not be written and what to do."""
    if error.errno == errno.ENOSPC:
        return InputError(
            f"{path}: the disk is full, nothing was changed. Free some space or choose another "
            "folder, then run the command again."
        )
    # A folder was to be made where a file stands: the system says "File exists" of the file.
    found = f"{error.filename} is a file" if error.errno == errno.EEXIST else error.strerror
    return InputError(f"{path}: cannot be written ({found}). Choose another place.")


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
