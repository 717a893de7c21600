"""Standard streams of the command line, which may be closed, break or lack characters.

A note that cannot be written must not end hours of work, so standard error is discarded if it
breaks. If standard output cannot be written, the command fails; but if it is a pipe whose reader
has ended (`head`, `less`), the command ends without an error.

Another program that shares a stream may have set it to non-blocking. Python then raises an error
when the stream is full, and loses the text; these streams wait until there is room.
"""

import codecs
import contextlib
import io
import os
import select
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO

from bertsmith.errors import BertsmithWarning, as_flags, issued_warnings
from bertsmith.system.escaping import escape_controls


def restart_in_utf8() -> None:
    """Restart Python in its UTF-8 mode if the locale has only ASCII.

    Without it, the words of the command line and file names would be undecoded bytes.
    """
    if sys.getfilesystemencoding() == "ascii" and "utf8" not in sys._xoptions:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


class _Output(io.FileIO):
    """A stream that waits while it is full, even if it is non-blocking."""

    def write(self, data: Any, /) -> int:
        while (count := super().write(data)) is None:  # full, and non-blocking
            select.select([], [self], [])
        return count


class _Stderr(_Output):
    """Standard error that discards everything once it cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:  # a closed pipe, a lost terminal, a full disk
            discard(self)
            return len(data)


def discard(stream: IO[Any]) -> None:
    """Discard everything that is written to a stream from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_streams() -> None:
    """Prepare the standard streams of a command.

    Those that are closed are opened on the null device. Writing waits while a stream is full.
    Standard error discards everything once it cannot be written.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It is closed, so that the next file to be opened would become this stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    # A Windows console has its own kind of stream, which can write any character.
    elif sys.stdout is sys.__stdout__ and os.name == "posix":
        sys.stdout = _text_stream(_Output(1, "w", closefd=False), like=sys.stdout)
    if sys.stderr is None or (sys.stderr is sys.__stderr__ and os.name == "posix"):
        stderr = _Stderr(2, "w", closefd=False)
        sys.stderr = _text_stream(stderr, like=sys.stderr or sys.stdout, line_buffering=True)


def _text_stream(file: io.FileIO, like: Any, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """Open a text stream in place of another one, with its encoding, flushed at least as often."""
    like.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        like.encoding,
        like.errors,
        # Unbuffered (python -u) means: flushed after each line.
        line_buffering=line_buffering or like.line_buffering or like.write_through,
    )


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard the standard error of the block: notes, progress, warnings."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


@contextlib.contextmanager
def shown_warnings(program: str) -> Iterator[None]:
    """Print bertsmith's warnings as one line each, whatever Python's warning filters are."""
    issued_warnings.clear()  # a command shows its warnings even if an earlier one has shown them
    with warnings.catch_warnings():
        warnings.simplefilter("always", BertsmithWarning)
        show_other = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, BertsmithWarning):
                text = message.message if isinstance(message, BertsmithWarning) else message
                # A message only marks the options that it names; `as_flags` spells them.
                print(escape_controls(as_flags(f"{program}: {text}")), file=sys.stderr)
            else:
                show_other(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def is_utf8(stream: TextIO) -> bool:
    """Return whether a stream writes UTF-8, however its encoding is spelled (utf8, UTF-8)."""
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"


def allow_any_character() -> None:
    """Let streams replace characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # A file name that is not UTF-8 is shown with \udcff, which JSON reads as that name.
            stream.reconfigure(errors="backslashreplace" if is_utf8(stream) else "replace")
