"""Writes that happen completely or not at all, and checksums.

A file is written under a temporary name beside its path and then renamed, so a reader never sees
half of it, even after a crash or on a full disk. (A pipe or a device, which cannot be renamed, is
written to directly.) A folder is built in the same way. While a new folder replaces an old one,
neither exists for a moment.
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
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertsmith.errors import ConfigError, InputError, WriteError, advice_on, option
from bertsmith.system.paths import is_within


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "wb", *, sweep: bool = True) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    If `path` is a link, its target is replaced. A pipe, or a device such as /dev/null, cannot be
    replaced, so it is written to directly.

    Args:
        sweep: remove the temporary files of writes of `path` that were killed; this lists the whole
            folder.

    Raises:
        InputError: the disk is full or the folder cannot be written; `path` is unchanged.
    """
    path = Path(path)
    with writing(path):
        if path.exists() and not path.is_file():
            with _open(path, mode) as file:
                yield file
        else:
            target = Path(os.path.realpath(path))
            if sweep:
                remove_stopped_writes(target.parent, re.escape(target.name))
            with _replacing(target, mode) as file:
                yield file


PAGE_ENDINGS = (".html", ".htm")


class _Local(threading.local):
    """The real paths of the folders and files that this thread has locked."""

    def __init__(self) -> None:
        self.held: set[str] = set()


_local = _Local()


def is_held(path: Path) -> bool:
    """Return whether this thread has locked the folder."""
    return os.path.realpath(path) in _local.held


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock a folder for the block.

    Blocks of one thread may be nested. On systems and file systems without locks, and for a folder
    that cannot be opened, this does nothing.

    Args:
        shared: allow other blocks with `shared` at the same time.

    Raises:
        ConfigError: another process or thread is in such a block.
    """
    with contextlib.ExitStack() as stack:
        if not is_held(folder) and not _lock(stack, folder, os.O_RDONLY, shared):
            raise ConfigError(
                f"{folder}: another process is using this folder. Wait until it ends, or choose "
                f"another {option('out')}."
            )
        yield


@contextlib.contextmanager
def hold_folder(
    folder: Path, check: Callable[[], object] = lambda: None, *, shared: bool = False
) -> Iterator[None]:
    """Lock a folder for the block. If it is missing, make it, and remove it if it remains empty.

    Args:
        check: raises an error if the folder's content is unsuitable.
        shared: allow other blocks with `shared` at the same time, which use other files.

    Raises:
        ConfigError: there is a file of that name, or another process or thread uses the folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: a file, not a folder. Choose another {option('out')}.")
    with contextlib.ExitStack() as stack:
        _make_folder(stack, folder)
        stack.enter_context(locked(folder, shared=shared))
        check()
        yield


@contextlib.contextmanager
def hold_outputs(
    outputs: Mapping[str, Path | None], input_file: Path | None, model: Path | None = None
) -> Iterator[None]:
    """Lock the output files for the block, and refuse one that is the input or a model's file.

    The lock is on a file beside the output, since the output itself is replaced. A lock file that a
    killed process left is not locked, so it is used again.

    Args:
        outputs: paths by flag; if its name ends in `page`, the output is an HTML page.
        input_file: the file that the command reads.
        model: the folder of the model that the command uses; its files are not replaced.

    Raises:
        ConfigError: an output is the input or a file in the model's folder, a page has another
            ending, or another process writes an output; names the flag.
    """
    _check_outputs(outputs, input_file, model)
    with contextlib.ExitStack() as stack:
        for flag, path in outputs.items():
            if path is None or (path.exists() and not path.is_file()):  # such as a pipe
                continue
            target = Path(os.path.realpath(path))
            _make_folder(stack, target.parent)
            with writing(path):
                lock = target.with_name(f".{target.name}.lock")
                is_locked = _lock(stack, lock, os.O_RDWR | os.O_CREAT)
            if not is_locked:
                raise ConfigError(
                    f"{flag} {path}: another process is writing this file. Wait until it ends, or "
                    "choose another file."
                )
        yield


def _make_folder(stack: contextlib.ExitStack, folder: Path) -> None:
    """Make a folder and its missing parents; the stack removes those that are still empty."""
    target = Path(os.path.realpath(folder))
    missing = [parent for parent in (target, *target.parents) if not parent.exists()]
    for parent in reversed(missing):
        stack.callback(_remove_empty, parent)
    with writing(folder):
        target.mkdir(parents=True, exist_ok=True)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _lock(stack: contextlib.ExitStack, path: Path, flags: int, shared: bool = False) -> bool:
    """Lock a folder or a lock file until the stack ends; return False if another process has it.

    A lock file, which `flags` create, is removed at the end. On systems without locks this returns
    True.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            lock = os.open(path, flags, 0o644)
        except OSError:
            if flags == os.O_RDONLY:
                return True
            raise
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except OSError:  # not every file system has locks
            pass
        # Another process may have removed the file in between, or replaced it.
        if _is_open_as(lock, path):
            break
        os.close(lock)
        if flags == os.O_RDONLY and not path.exists():
            return True
    stack.callback(os.close, lock)
    if flags != os.O_RDONLY:
        stack.callback(path.unlink, missing_ok=True)
    real_path = os.path.realpath(path)
    _local.held.add(real_path)
    stack.callback(_local.held.discard, real_path)
    return True


def _is_open_as(descriptor: int, path: Path) -> bool:
    """Return whether the file that was opened as `descriptor` is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _check_outputs(
    outputs: Mapping[str, Path | None], input_file: Path | None, model: Path | None
) -> None:
    """Refuse an output that is the input, another output, a folder, or a file of the model.

    Raises:
        ConfigError: names the flag.
    """
    other_files = {"the input": input_file}
    for flag, path in outputs.items():
        if path is not None and path.is_dir():
            raise ConfigError(f"{flag} {path} is a folder. Name a file in it.")
        for use, other in other_files.items():
            if path is not None and other is not None and _is_same_file(path, other):
                raise ConfigError(f"{flag} {path} is also {use}. Choose another file.")
        if path is not None and (path.is_file() or not path.exists()):  # no pipe or device
            if flag.endswith("page") and path.suffix.lower() not in PAGE_ENDINGS:
                raise ConfigError(
                    f"{flag}: found '{path}'; the name must end in {' or '.join(PAGE_ENDINGS)}."
                )
            if path.is_file() and model is not None and model.is_dir() and is_within(path, model):
                raise ConfigError(
                    f"{flag} {path} is a file in the folder of the model, {model}, and would be "
                    "replaced. Choose another file."
                )
        other_files[f"the file of {flag}"] = path


def _is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths lead to one regular file, which may not exist yet."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _open(path: Path, mode: str) -> IO[Any]:
    if "b" in mode:
        return path.open(mode)
    # A file name that is not UTF-8 has lone surrogates; JSON writes the byte 0xff as \udcff, too.
    return path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n")


@contextlib.contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _open(temporary, mode) as file:
            if path.exists():
                shutil.copymode(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_stopped_writes(folder: Path, name: str = ".+") -> None:
    """Remove temporary files that ended processes left, for files whose names match `name`.

    On Windows this does nothing.
    """
    if sys.platform == "win32":  # here signal 0, which tests if a process lives, would end it
        return
    temporary = re.compile(rf"\.{name}\.(\d{{1,9}})\.tmp")
    with contextlib.suppress(OSError):  # the folder cannot be listed, or another process was faster
        for leftover in folder.iterdir():
            if (match := temporary.fullmatch(leftover.name)) and not _is_alive(int(match[1])):
                leftover.unlink(missing_ok=True)


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
        InputError: the disk is full or cannot be written.
    """
    with atomic_write(path, "w") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


@contextlib.contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` when the block ends without an error.

    The old folder is removed only after the new one is complete. If `path` is a link, its target is
    replaced. Temporary folders that killed processes left are removed first.

    Raises:
        InputError: the disk is full or cannot be written; the old folder stays.
    """
    target = Path(os.path.realpath(path))
    with writing(path):
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
    """Make a folder beside `path`, locked for as long as this process lives.

    The folder gets its final temporary name only once it is locked, so a folder of such a name
    without a lock is a leftover.
    """
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent))
    made.chmod(0o755)
    lock = try_lock(made)
    return made.rename(made.with_suffix(".tmp")), lock


def try_lock(folder: Path) -> int | None:
    """Lock `folder` and return the descriptor; None if it is locked already or cannot be."""
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
    """Remove temporary folders for `path` that killed processes left; those in use are locked."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.(tmp|old)")
    for leftover in [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]:
        if leftover.suffix == ".old" and not (path.exists() and any(path.iterdir())):
            continue  # killed between two renames: this is the only copy
        with contextlib.suppress(OSError):  # another process may be faster
            if (lock := try_lock(leftover)) is not None:
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(lock)


def write_error(path: Path, error: OSError) -> WriteError:
    """Build the error for a file or folder that cannot be written."""
    if error.errno == errno.ENOSPC:
        return WriteError(
            f"{path}: the disk is full.",
            "Nothing was changed. Free some space or choose another folder, then run the command "
            "again.",
        )
    # If a file is where a folder must be made, the system says "File exists" about the file.
    cause = f"{error.filename} is a file" if error.errno == errno.EEXIST else error.strerror
    advice = "Choose another path." if error.errno == errno.EEXIST else advice_on(error)
    return WriteError(f"{path}: cannot be written ({cause}).", advice)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an error that names `path`, not a temporary name.

    Raises:
        InputError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def sha256_file(path: Path) -> str:
    """Compute a file's SHA-256, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
