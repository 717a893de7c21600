"""Remarks for the user that stop nothing."""

import os
import sys
import warnings
from pathlib import Path
from types import FrameType

from bertsmith.errors.option_names import as_arguments

PACKAGE = str(Path(__file__).parents[1]) + os.sep
"""The beginning of the names of all files of the package."""


class BertsmithWarning(UserWarning):
    """A remark for the user that stops nothing; it names options as errors do."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return as_arguments(self.message)


given_warnings: set[object] = set()
"""The warnings that this process has given."""


def warn_once(message: str, state: object = None) -> None:
    """Warn once for each message and `state`: a folder is read several times."""
    if (message, state) not in given_warnings:
        given_warnings.add((message, state))
        warnings.warn(BertsmithWarning(message), stacklevel=1 + _levels_to_caller())


def _levels_to_caller() -> int:
    """Count the frames from this function's caller to the line that called bertsmith.

    It is the line before the outermost frame of the package: decorators of other libraries stand
    between its own. Python 3.12 skips files by their names, but not those.
    """
    frame: FrameType | None = sys._getframe(1)
    level = outermost = 0
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            outermost = level
        frame, level = frame.f_back, level + 1
    return outermost + 1
