"""Remarks for the user that stop nothing."""

import warnings

from bertsmith.errors.option_names import as_arguments


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
        warnings.warn(BertsmithWarning(message), stacklevel=3)
