"""Which files of a folder are opened, by whatever process, as Linux's inotify tells."""

import contextlib
import ctypes
import os
import struct
from pathlib import Path

IN_OPEN = 0x20
"""The event of a file that is opened (inotify(7))."""
HEADER = struct.Struct("iIII")
"""Watch, kind, cookie and length of the name, which follows."""


class OpenedFiles:
    """The files of a folder that have been opened since the last look.

    Raises:
        OSError: the system has no inotify.
    """

    def __init__(self, folder: Path) -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            self._events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError("the system has no inotify") from None
        if self._events < 0 or libc.inotify_add_watch(self._events, bytes(folder), IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def take_names(self) -> set[str]:
        """Return the names of the files that have been opened since the last call."""
        names = set()
        with contextlib.suppress(BlockingIOError):  # no more events
            while events := os.read(self._events, 65_536):
                while events:
                    *_, length = HEADER.unpack_from(events)
                    name, events = events[HEADER.size :][:length], events[HEADER.size + length :]
                    names.add(os.fsdecode(name.rstrip(b"\0")))
        return names
