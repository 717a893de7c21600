"""Read standard input as it comes, and tell whether its next line is there yet.

So a command can compute lines together that are there already, without waiting for more.
"""

import io
import os
import select
import sys

from bertsmith.errors import InputError

READ_BYTES = 1 << 16
"""Largest number of bytes read at once; a pipe of Linux holds as many."""


class StandardInput(io.RawIOBase):
    """The bytes of standard input, read as they come.

    Python's buffered streams do not show what is in their buffer, so this one has its own.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = bytearray()
        self._is_at_end = False

    def readable(self) -> bool:
        return True

    def peek(self, size: int = 0) -> bytes:
        """Return bytes without moving on; none at the end."""
        if not self._bytes:
            self._fill()
        return bytes(self._bytes)

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line of at most `size` bytes."""
        max_bytes = sys.maxsize if size is None or size < 0 else size
        num_searched = 0
        while (end := self._bytes.find(b"\n", num_searched)) < 0 and len(self._bytes) < max_bytes:
            num_searched = len(self._bytes)
            if not self._fill():
                break
        line_bytes = end + 1 if end >= 0 else len(self._bytes)
        return self._take(min(max_bytes, line_bytes))

    def read1(self, size: int = -1) -> bytes:
        """Read the available bytes, at most `size`; wait if there are none."""
        if not self._bytes:
            self._fill()
        return self._take(len(self._bytes) if size < 0 else size)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def has_line(self) -> bool:
        """Return whether a line, or the end, can be read without waiting."""
        while b"\n" not in self._bytes and not self._is_at_end:
            if not select.select([self._descriptor], [], [], 0)[0]:
                return False
            self._fill()
        return True

    def _fill(self) -> bool:
        """Read a block; return whether there was one."""
        block = b"" if self._is_at_end else os.read(self._descriptor, READ_BYTES)
        self._is_at_end = not block
        self._bytes += block
        return bool(block)

    def _take(self, count: int) -> bytes:
        """Remove the first bytes from the buffer, and return them."""
        data = bytes(self._bytes[:count])
        del self._bytes[:count]
        return data


_opened: StandardInput | None = None


def open_standard_input() -> StandardInput:
    """Open standard input.

    Raises:
        InputError: standard input is closed.
    """
    global _opened  # noqa: PLW0603 - there is one standard input
    if sys.stdin is None:  # as Python has it where file descriptor 0 is closed
        raise InputError(
            "standard input: it is closed. Pipe rows into the command, or name a file."
        )
    _opened = StandardInput(sys.stdin.fileno())
    return _opened


def must_wait_for_input() -> bool:
    """Return whether the next line of standard input has not been written yet."""
    # On Windows only sockets can be asked whether there is something to read.
    if _opened is None or sys.platform == "win32":
        return False
    return not _opened.has_line()
