"""Threads and locks in forked processes, which have only the thread that forked.

torch would wait forever for the parent's other threads, so a forked process computes with one
thread. A lock that another thread of the parent held would stay locked forever.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable

_forked: list[int] = []
"""Process ids of this process and of the ancestors that were forked like it, the oldest first;
empty in a process that was started afresh."""
_locks: "weakref.WeakSet[ForkSafeLock]" = weakref.WeakSet()


def is_forked() -> bool:
    """Return whether this process was forked, and so computes with one thread."""
    return bool(_forked)


class ForkSafeLock:
    """A lock that is free in a forked child, even if another thread held it in the parent.

    In that case `reset` is called in the child, since the data that the lock guards may be half
    changed. If the thread that forked holds the lock, it still does so in the child.
    """

    def __init__(self, reset: Callable[[], object] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None  # the thread that holds the lock
        self._reset = reset
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *problem: object) -> None:
        self._owner = None
        self._lock.release()

    def renew(self) -> None:
        """Make the lock free in a forked child, unless the child's only thread holds it."""
        if self._lock.locked() and self._owner != threading.get_ident():
            self._owner = None
            self._lock = threading.Lock()
            self._reset()


def _prepare_child() -> None:
    _forked.append(os.getpid())
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_prepare_child)
