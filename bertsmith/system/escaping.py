"""Control characters in texts and file names, which a terminal would obey: shown, not sent."""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

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


class EscapedStream:
    """A stream for people, to which control characters go as their escapes.

    rich, whose colours are meant, writes to `rich_proxied_file`, the stream behind it.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escape_controls(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def unescaped(stream: Any) -> IO[str]:
    """Return the stream that takes colours, which rich's live displays wrap once more."""
    while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = inner
    return stream


@contextlib.contextmanager
def escaped_streams() -> Iterator[None]:
    """Escape what the block writes to standard error, and to standard output on a terminal.

    A file or another program gets results as they are.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stderr(EscapedStream(sys.stderr)))
        if sys.stdout.isatty():
            stack.enter_context(contextlib.redirect_stdout(EscapedStream(sys.stdout)))
        yield


def make_console(**options: Any) -> Any:
    """Make a console of rich that escapes the texts which it is given, not its own colours."""
    # A tenth of a second, for those who look on.
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
