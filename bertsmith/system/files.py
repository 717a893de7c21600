"""Writes that happen completely or not at all, and checksums.

A file is written under a temporary name beside its path and then renamed, so a reader never sees
half of it, even after a crash or on a full disk. (A pipe or a device, which cannot be renamed, is
written to directly.) A folder is built under a temporary name and renamed in the same way. While a
new folder replaces an old one, there is for a moment no folder at the path.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bertsmith.errors import ConfigError, InputError, WriteError
from bertsmith.system.locks import lock_file, try_lock
from bertsmith.system.paths import is_within
from bertsmith.system.write_error import naming_write_errors, write_error

REMOVED_SUFFIX = ".removed"
"""End of the name of a folder that is being removed, so that nothing takes it for complete."""


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "wb", *, sweep: bool = True) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    If `path` is a link, its target is replaced. A pipe, or a device such as /dev/null, cannot be
    replaced, so it is written to directly.

    Args:
        sweep: remove the temporary files of writes of `path` that were killed; this lists the whole
            folder.

    Raises:
        WriteError: the disk is full or the folder cannot be written; `path` is unchanged.
    """
    path = Path(path)
    with naming_write_errors(path):
        if path.exists() and not path.is_file():
            with _open(path, mode) as file:
                yield file
        else:
            target = Path(os.path.realpath(path))
            if sweep:
                remove_stopped_writes(target.parent, re.escape(target.name))
            with _replacing(target, mode) as file:
                yield file


def _open(path: Path, mode: str) -> IO[Any]:
    if "b" in mode:
        return path.open(mode)
    # A file name that is not UTF-8 has lone surrogates; JSON writes the byte 0xff as \udcff, too.
    return path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n")


@contextlib.contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    """Open a locked temporary file, which gets the name `path` when the block ends.

    If the block raises an error, the temporary file is removed, and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The random part of the name tells apart two threads that write one path, and two machines that
    # share the folder, whose processes may have the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    lock: int | None = None
    try:
        with _open(temporary, mode) as file:
            if lock_file(file.fileno()):
                # A second descriptor keeps the lock until the closed file has its name.
                lock = os.dup(file.fileno())
            if path.exists():
                shutil.copymode(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def remove_stopped_writes(folder: Path, name: str = ".+") -> None:
    """Remove temporary files that ended processes left, for files whose names match `name`.

    A file that is locked stays: a process on another machine writes it. So does every file on a
    file system without locks. On Windows this does nothing.
    """
    if sys.platform == "win32":  # here signal 0, which tests if a process lives, would end it
        return
    # The number of the process and, since a later version, a random part for each write
    temporary = re.compile(rf"\.{name}\.(\d{{1,9}})(-[0-9a-f]+)?\.tmp")
    with contextlib.suppress(OSError):  # the folder cannot be listed
        for leftover in folder.iterdir():
            if (match := temporary.fullmatch(leftover.name)) and not _is_alive(int(match[1])):
                with contextlib.suppress(OSError):  # another process was faster
                    # NFS locks only files that are open for writing.
                    if (lock := try_lock(leftover, os.O_RDWR)) is not None:
                        try:
                            leftover.unlink(missing_ok=True)
                        finally:
                            os.close(lock)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        return True
    return True


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; keys keep their order.

    Raises:
        WriteError: the disk is full or cannot be written.
    """
    with atomic_write(path, "w") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def check_is_replaceable(folder: Path) -> None:
    """Check that `atomic_dir` can replace a folder, which need not exist.

    The system does not rename a folder at which a disk is mounted, such as a volume of a container.
    Without this check, the work would be done and lost before the error. A shell whose folder is
    replaced stays in the old one, where it finds nothing.

    Raises:
        ConfigError: a disk is mounted there, or the current folder is this one or inside it.
    """
    if os.path.ismount(os.path.realpath(folder)):
        raise ConfigError(
            f"{folder}: a disk or a volume of a container is mounted at this folder, so it cannot "
            f"be replaced. Choose a folder in it, such as {folder / 'out'}."
        )
    with contextlib.suppress(FileNotFoundError):  # the current folder was removed
        if is_within(Path.cwd(), folder):
            raise ConfigError(
                f"{folder}: the current folder is this one or inside it, so it cannot be replaced: "
                "whoever works in it would stay in the old folder, which is removed. Start from "
                f"another folder, or write to another one, such as {folder / 'out'}."
            )


@contextlib.contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` when the block ends without an error.

    The old folder is removed only after the new one is complete. If `path` is a link, its target is
    replaced. Temporary folders that killed processes left are removed first.

    Raises:
        WriteError: the disk is full or cannot be written; the old folder stays.
        ConfigError: as `check_is_replaceable`.
    """
    check_is_replaceable(path)
    target = Path(os.path.realpath(path))
    with naming_write_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        temporary, lock = _locked_folder(target)
    try:
        yield temporary
        replaced = temporary.with_suffix(".old")
        try:
            if target.exists():
                shutil.copymode(target, temporary)
                target.rename(replaced)
            temporary.rename(target)
        except BaseException:  # Ctrl-C, too
            if replaced.exists() and not target.exists():
                replaced.rename(target)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise write_error(path, error) from error
    except WriteError as error:  # about a file in the folder: name it by the user's path
        problem = error.problem.replace(str(temporary), str(path))
        raise WriteError(problem, error.advice) from error.__cause__
    except InputError as error:
        error.args = (error.message.replace(str(temporary), str(path)),)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked_folder(path: Path) -> tuple[Path, int | None]:
    """Make a folder beside `path`, and lock it; return its path and the descriptor of the lock.

    The lock ends when the descriptor is closed, or with this process. The folder's name ends in
    .tmp only once it is locked, so a folder of such a name without a lock is a leftover.
    """
    # `mkdir` gives the usual permissions; tempfile.mkdtemp would give none to the group.
    new_folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    new_folder.mkdir()
    lock = try_lock(new_folder)
    return new_folder.rename(new_folder.with_suffix(".tmp")), lock


def _remove_leftovers(path: Path) -> None:
    """Remove temporary folders for `path` that killed processes left; those in use are locked."""
    # Eight hexadecimal digits; an earlier version had the names of tempfile.mkdtemp.
    name = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.(tmp|old)")
    for leftover in [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]:
        if leftover.suffix == ".old" and not (path.exists() and any(path.iterdir())):
            continue  # killed between two renames: this is the only copy
        with contextlib.suppress(OSError):  # another process may be faster
            lock = try_lock(leftover)
            if lock is not None:
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(lock)


def move(path: Path, target: Path) -> None:
    """Move a file or a folder, also to another disk, to which a link in its path may lead.

    At each moment one of the two places has it whole.

    Raises:
        WriteError: the disk is full or cannot be written.
    """
    try:
        path.replace(target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    if not path.is_dir():
        with atomic_write(target) as copy, path.open("rb") as original:
            shutil.copyfileobj(original, copy)
        path.unlink()
        return
    with atomic_dir(target) as folder:
        shutil.copytree(path, folder, dirs_exist_ok=True)
    remove_folder(path)


def remove_folder(path: Path) -> None:
    """Remove a folder under another name, so that nobody takes a half removed one for whole.

    If the process is killed meanwhile, `removed_name(path)` is left. The next call for `path`
    removes it.

    Raises:
        OSError: the folder cannot be renamed or removed.
    """
    renamed = path
    if path.suffix != REMOVED_SUFFIX:
        renamed = removed_name(path)
        if renamed.exists():
            shutil.rmtree(renamed)
        path.rename(renamed)
    shutil.rmtree(renamed)


def removed_name(path: Path) -> Path:
    """Return the hidden name under which `remove_folder` removes a folder, in the same place."""
    return path.with_name(f".{path.name.lstrip('.')}{REMOVED_SUFFIX}")


def sha256_file(path: Path) -> str:
    """Compute a file's SHA-256, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
