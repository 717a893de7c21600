"""Forked children: such a process has one thread, and none of those that its parent computed with.

torch would wait in it for ever for threads that are gone, so it computes with one. A lock that
another thread of the parent held would stay closed in it for good.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable

_forked: list[int] = []
"""Processes that were forked on the way to this one."""
_locks: "weakref.WeakSet[ForkSafeLock]" = weakref.WeakSet()


def is_forked() -> bool:
    """Return whether this process was forked, and so computes with one thread."""
    return bool(_forked)


class ForkSafeLock:
    """A lock that is open in a forked child, whoever held it in the parent.

    `reset` is called there if it was held, as what it guards may be half changed.
    """

    def __init__(self, reset: Callable[[], object] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._reset = reset
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *problem: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        if self._lock.locked():
            self._lock = threading.Lock()
            self._reset()


def _renew() -> None:
    _forked.append(os.getpid())
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
