"""Warnings for the user, which are shown once and point at the user's own line of code."""

import os
import sys
import warnings
from pathlib import Path
from types import FrameType

from bertsmith.errors.option_names import as_arguments

PACKAGE = str(Path(__file__).parents[1]) + os.sep
"""Prefix of the paths of the package's files."""


class BertsmithWarning(UserWarning):
    """A warning for the user, which spells options as `BertsmithError` does."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return as_arguments(self.message)


issued_warnings: set[object] = set()
"""The pair of message and state of each warning that this process has shown."""


def warn_once(message: str, state: object = None) -> None:
    """Warn once for each message, because a folder may be read several times.

    Args:
        message: sentences, whose options are named by `option`.
        state: a further value; if it differs, the message is shown again.
    """
    if (message, state) not in issued_warnings:
        issued_warnings.add((message, state))
        warnings.warn(BertsmithWarning(message), stacklevel=1 + _levels_to_caller())


def _levels_to_caller() -> int:
    """Count the frames from this function's caller to the line that called bertsmith.

    That line is in the frame before the package's outermost one. Python 3.12 has an argument
    skip_file_prefixes for this. It is not used, since it would stop at a frame of another library
    between the package's own frames, such as one of a decorator.
    """
    frame: FrameType | None = sys._getframe(1)
    level = outermost = 0
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            outermost = level
        frame, level = frame.f_back, level + 1
    return outermost + 1
