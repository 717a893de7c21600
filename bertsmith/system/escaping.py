"""Escapes for control characters in texts and file names, which a terminal would obey."""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

from bertsmith.errors import as_flags

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # colours, cursor, title; all but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029]"  # line and paragraph separators
)


def escape_controls(text: str) -> str:
    """Replace control characters by their escapes, which JSON reads as well.

    >>> escape_controls("a\x1b[2J b")
    'a\\\\u001b[2J b'
    """
    return CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


class CommandStream:
    """A command's stream that writes options as flags, and control characters as escapes.

    Colours are not escaped: rich writes them to the inner stream, `rich_proxied_file`.

    Args:
        has_controls: write control characters as they are, because the stream is a file or a pipe.
    """

    def __init__(self, stream: IO[str], *, has_controls: bool = False) -> None:
        self.rich_proxied_file = stream
        self._has_controls = has_controls

    def write(self, text: str) -> int:
        written = as_flags(text)
        if not self._has_controls:
            written = escape_controls(written)
        self.rich_proxied_file.write(written)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def unescaped(stream: Any) -> IO[str]:
    """Return the innermost stream, which accepts colours; rich's live displays wrap it again."""
    while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = inner
    return stream


@contextlib.contextmanager
def command_streams() -> Iterator[None]:
    """Write options as flags in what the block prints, and escape control characters.

    Characters on standard error are always escaped, those on standard output only if it is a
    terminal: a file or another program gets the control characters of results as they are.
    """
    out = CommandStream(sys.stdout, has_controls=not sys.stdout.isatty())
    err = CommandStream(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def make_console(**options: Any) -> Any:
    """Make a rich console that escapes the texts it prints, but not its own colours."""
    # Imported here, as it takes a tenth of a second that only shown output needs.
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class SafeConsole(Console):
        @property
        def file(self) -> IO[str]:
            return unescaped(super().file)

        @file.setter
        def file(self, stream: IO[str]) -> None:
            self._file = stream

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else escape_controls(text), style, control)

    return SafeConsole(**options)
