"""The error for a file or folder that cannot be written."""

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec

from bertsmith.errors import WriteError, advice_on

P = ParamSpec("P")


def write_error(path: Path, error: OSError) -> WriteError:
    """Build the error for a file or folder that cannot be written.

    `error` may be a `shutil.Error`, which lists the files that `shutil.copytree` could not copy.
    """
    if error.errno == errno.ENOSPC:
        return WriteError(
            f"{path}: the disk is full.",
            "Nothing was changed. Free some space or choose another folder, then run the command "
            "again.",
        )
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list) and error.args[0]:
        source, _, reason = error.args[0][0]
        return WriteError(
            f"{path}: cannot be written, as {source} could not be copied ({reason}).",
            "Nothing was changed. Check that file and the space on the disk, then try again.",
        )
    # The system says "File exists" if a file is where a folder must be made.
    cause = f"{error.filename} is a file" if error.errno == errno.EEXIST else error.strerror
    advice = "Choose another path." if error.errno == errno.EEXIST else advice_on(error)
    return WriteError(f"{path}: cannot be written ({cause or error}).", advice)


@contextlib.contextmanager
def naming_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an error that names `path`, not a temporary name.

    Raises:
        WriteError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


@contextlib.contextmanager
def failing_late(write: Callable[P, object], path: Path) -> Iterator[Callable[P, None]]:
    """Yield a form of `write` that raises no error, as the work of the block must go on.

    `write` writes to `path`. Its first error is raised when the block ends; calls after that error
    do nothing.

    Raises:
        WriteError: a call could not write.
    """
    error: WriteError | None = None

    def try_to_write(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal error
        if error is None:
            try:
                with naming_write_errors(path):
                    write(*args, **kwargs)
            except WriteError as caught:
                error = caught

    yield try_to_write
    if error is not None:
        raise error
