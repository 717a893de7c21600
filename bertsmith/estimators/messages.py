"""Errors in the words of Python: `label_column` where the command line has `--label-column`."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bertsmith.errors import BertsmithError, NotFittedError

FLAG = re.compile(r"'bertsmith [^']*'|--([a-z][a-z-]*)")


@contextmanager
def in_python() -> Iterator[None]:
    """Name arguments, not flags, in the message of an error that is raised in the block."""
    try:
        yield
    except BertsmithError as error:
        error.args = (as_arguments(str(error)), *error.args[1:])
        raise


def as_arguments(message: str) -> str:
    """Write flags as Python's arguments, but in commands.

    >>> as_arguments("Pass --skip-incomplete, or 'bertsmith evaluate --data'.")
    "Pass skip_incomplete, or 'bertsmith evaluate --data'."
    """
    return FLAG.sub(lambda found: found[1].replace("-", "_") if found[1] else found[0], message)


def not_fitted(name: str) -> NotFittedError:
    """Build the error of an estimator before `fit`; scikit-learn's as well, if that is loaded."""
    message = f"{name} is not fitted yet. Call fit first, or load a folder with bertsmith.load."
    kinds: tuple[type[Exception], ...] = (NotFittedError,)
    if (theirs := sys.modules.get("sklearn.exceptions")) is not None:
        kinds += (theirs.NotFittedError,)
    error: NotFittedError = type("NotFittedError", kinds, {})(message)
    return error
