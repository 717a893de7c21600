"""Locks on folders and files, so that two processes do not write to the same place.

The operating system removes a lock when the process ends that holds it. On systems and file systems
without locks, nothing is locked.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from bertsmith.errors import ConfigError, option
from bertsmith.system.write_error import naming_write_errors


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
        if not is_held(folder) and not lock_path(stack, folder, os.O_RDONLY, shared):
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
        make_folder(stack, folder)
        stack.enter_context(locked(folder, shared=shared))
        check()
        yield


def try_lock(path: Path, flags: int = os.O_RDONLY) -> int | None:
    """Lock a folder or file and return the lock's descriptor; closing it ends the lock.

    None if it is locked already, or if the file system has no locks.

    Args:
        flags: those of `os.open`: `os.O_RDONLY` for a folder.

    Raises:
        OSError: it cannot be opened.
    """
    if sys.platform == "win32":
        return None
    lock = os.open(path, flags)
    if not lock_file(lock):
        os.close(lock)
        return None
    return lock


def lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed; return whether that was possible."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def make_folder(stack: contextlib.ExitStack, folder: Path) -> None:
    """Make a folder and its missing parents.

    When the stack ends, the folders that were made here and are still empty are removed.
    """
    target = Path(os.path.realpath(folder))
    missing = [parent for parent in (target, *target.parents) if not parent.exists()]
    for parent in reversed(missing):
        stack.callback(_remove_empty, parent)
    with naming_write_errors(folder):
        target.mkdir(parents=True, exist_ok=True)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def lock_path(stack: contextlib.ExitStack, path: Path, flags: int, shared: bool = False) -> bool:
    """Lock a folder or a lock file until the stack ends; return False if another process has it.

    On systems without locks, and for a folder that cannot be opened, this returns True.

    Args:
        flags: those of `os.open`: `os.O_RDONLY` for a folder, others to create a lock file, which
            is removed at the end.
        shared: allow other locks with `shared` at the same time.

    Raises:
        OSError: the lock file cannot be opened.
    """
    if sys.platform == "win32":
        return True
    lock = _PathLock(path, flags, shared=shared)
    # Before the lock file is made: Ctrl-C may come at any point.
    stack.callback(lock.release)
    return lock.acquire()


class _PathLock:
    """The lock on a folder, or on a lock file that is made for it and removed with it."""

    def __init__(self, path: Path, flags: int, *, shared: bool) -> None:
        self.path = path
        self.real_path = os.path.realpath(path)
        self.flags = flags
        self.shared = shared
        self._descriptor: int | None = None
        self._removes_file = flags != os.O_RDONLY
        """Whether `release` removes the lock file: not that of another process, and no folder."""
        self._is_noted = False
        """Whether the path is among those that this thread has locked."""

    def acquire(self) -> bool:
        """Lock the path; return False if another process has the lock.

        Raises:
            OSError: the lock file cannot be opened.
        """
        while True:
            try:
                self._descriptor = os.open(self.path, self.flags, 0o644)
            except OSError:
                self._removes_file = False
                if self.flags == os.O_RDONLY:
                    return True
                raise
            if not self._lock():
                self._removes_file = False
                self._close()
                return False
            # Another process may have removed the file in between, or replaced it.
            if _is_open_as(self._descriptor, self.path):
                break
            self._close()
            if self.flags == os.O_RDONLY and not self.path.exists():  # it needs no lock
                return True
        self._is_noted = True
        _local.held.add(self.real_path)
        return True

    def release(self) -> None:
        """End the lock, and remove its file, also if a stop request interrupted `acquire`."""
        if self._is_noted:
            _local.held.discard(self.real_path)
        if self._removes_file:
            with contextlib.suppress(OSError):
                if self._descriptor is None:  # interrupted when the file was just made
                    self._descriptor = os.open(self.path, os.O_RDWR)
                if self._lock() and _is_open_as(self._descriptor, self.path):
                    self.path.unlink(missing_ok=True)
        self._close()

    def _lock(self) -> bool:
        """Lock the open file, if that is not done yet; return False if another process has it."""
        import fcntl

        assert self._descriptor is not None
        operation = fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # not every file system has locks
            pass
        return True

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _is_open_as(descriptor: int, path: Path) -> bool:
    """Return whether the file that was opened as `descriptor` is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
