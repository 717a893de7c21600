"""Errors in the words of Python: `label_column` where the command line has `--label-column`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bertsmith.errors import BertsmithError

FLAG = re.compile(
    r"'bertsmith [^']*'|--(?P<name>[a-z][a-z-]*)(?![a-z=-])"
    r"(?: (?P<value>[\w./-]+?)(?=[.,;)](?:\s|$)|$| \(| or | if | for | would ))?"
)
"""A flag, with the word behind it where that can only be its value; or a command, as it is.
Other programs' flags have their value behind a `=`."""

SWITCHES = ("resume", "overwrite", "skip_incomplete", "multi_label", "from_scratch")
"""Arguments that are True or False; the flags of that name have no value."""

_is_typed = ContextVar("_is_typed", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Keep the flags of errors in the block: the user has typed a command."""
    token = _is_typed.set(True)
    try:
        yield
    finally:
        _is_typed.reset(token)


def is_on_command_line() -> bool:
    """Return whether the user has typed a command, which tells its notes itself."""
    return _is_typed.get()


@contextmanager
def in_python() -> Iterator[None]:
    """Name arguments, not flags, in errors that the block raises, except `on_command_line`."""
    try:
        yield
    except BertsmithError as error:
        if not _is_typed.get():
            error.args = (as_arguments(str(error)), *error.args[1:])
        raise


def as_arguments(message: str) -> str:
    """Write flags as Python's arguments, but in commands.

    >>> as_arguments("Pass --max-length 64 or --from runs/a, or 'bertsmith evaluate --data'.")
    "Pass max_length=64 or from_='runs/a', or 'bertsmith evaluate --data'."
    """
    return FLAG.sub(_as_argument, message)


def _as_argument(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if name is None:
        return found[0]
    name = "from_" if name == "from" else name.replace("-", "_")
    if value is None:
        return f"{name}=True" if name in SWITCHES else name
    is_code = value.isupper() or value.replace(".", "").isdecimal()
    return f"{name}={value if is_code else repr(value)}"
