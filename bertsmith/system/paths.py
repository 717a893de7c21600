"""Functions on paths: quoting for a shell, unused names, containment, names that are not UTF-8."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertsmith.errors import ConfigError, option


def shell_path(path: Path | str) -> str:
    """Quote a path for a shell, with ./ before a leading dash, which would begin an option.

    >>> shell_path("my run"), shell_path("-run")
    ("'my run'", './-run')
    """
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def free_path(path: Path) -> Path:
    """Return a path that does not exist yet: this one, or one with a number after its name."""
    number = 1
    free = path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def with_name_of_its_own(path: Path) -> Path:
    """Return a path whose last part is a name: that of `.`, `..` or an empty one is looked up.

    Other files and folders are named after it, such as `mine-classifier` beside the model `mine`.
    Only `/` has no name.
    """
    return Path(os.path.realpath(path)) if path.name in ("", "..") else path


def is_within(path: Path, folder: Path) -> bool:
    """Return whether a path is `folder` or inside it, after following links."""
    # Path.resolve raises a RuntimeError for a link to itself.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def check_outside(out: Path, *inputs: Path | str | None) -> None:
    """Refuse an output folder that is an input, or is inside one.

    Otherwise the next command would read the output as one of the texts, or the output would be
    lost when the input is replaced.

    Raises:
        ConfigError: names both.
    """
    for path in inputs:
        if path is not None and Path(path).is_dir() and is_within(out, Path(path)):
            if is_within(Path(path), out):
                raise ConfigError(
                    f"{option('out', out)} is the folder that this command reads. Choose another "
                    "folder."
                )
            raise ConfigError(
                f"{option('out', out)} is inside {path}, which this command reads. Choose a folder "
                "outside it."
            )


@contextmanager
def utf8_name(path: Path) -> Iterator[Path]:
    """Name an existing file for a library that opens only UTF-8 names."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            yield Path(f"/dev/fd/{descriptor}")
        finally:
            os.close(descriptor)
    else:
        yield path
