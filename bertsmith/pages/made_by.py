"""The command in the footer of each HTML page, which shows how the page was made."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# A context variable, so that commands that run in several threads do not see each other's.
_command = ContextVar("_command", default="")


@contextmanager
def made_by(command: str) -> Iterator[None]:
    """Show `command`, as it was typed, at the end of each page that is written in the block."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def command_of_pages() -> str:
    """Return the command of the innermost `made_by`; empty outside one."""
    return _command.get()
