"""The error for a file or folder that cannot be written."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from bertsmith.errors import WriteError, advice_on


def write_error(path: Path, error: OSError) -> WriteError:
    """Build the error for a file or folder that cannot be written."""
    if error.errno == errno.ENOSPC:
        return WriteError(
            f"{path}: the disk is full.",
            "Nothing was changed. Free some space or choose another folder, then run the command "
            "again.",
        )
    # If a file is where a folder must be made, the system says "File exists" about the file.
    cause = f"{error.filename} is a file" if error.errno == errno.EEXIST else error.strerror
    advice = "Choose another path." if error.errno == errno.EEXIST else advice_on(error)
    return WriteError(f"{path}: cannot be written ({cause}).", advice)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an error that names `path`, not a temporary name.

    Raises:
        InputError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error
