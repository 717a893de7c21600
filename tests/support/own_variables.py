"""Environment variables that our code leaves changed after a test: they are restored, and told.

Libraries set some for good when they are imported or first used, such as scikit-learn and
transformers. That a test, or bertsmith itself, does so is a mistake: the tests after it would run
in another environment than alone.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

import pytest

NOT_OURS = ("<", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")})
"""How the names of files with Python's code begin, and those of installed libraries."""

_set_by_us: set[str] = set()


def note_variable(event: str, args: tuple[Any, ...]) -> None:
    """Note a variable that our code sets or removes; a hook of `sys.addaudithook`."""
    if event not in ("os.putenv", "os.unsetenv"):
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] in ("os", "collections.abc"):
        frame = frame.f_back
    if not frame.f_code.co_filename.startswith(NOT_OURS):
        _set_by_us.add(os.fsdecode(args[0]))


def restore_environment() -> Iterator[None]:
    """Restore the variables that our code has left changed, and fail if there are any."""
    before = dict(os.environ)
    yield
    left = sorted(name for name in _set_by_us if os.environ.get(name) != before.get(name))
    for name in left:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    if left:
        pytest.fail(f"left changed: {', '.join(left)}. Use monkeypatch.setenv.", pytrace=False)
