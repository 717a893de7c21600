"""Words of a command line to paste into a shell."""

import shlex
from pathlib import Path


def shell_path(path: Path | str) -> str:
    """Quote a path for a shell; one with a leading dash would be read as an option.

    >>> shell_path("my run"), shell_path("-run")
    ("'my run'", './-run')
    """
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))
