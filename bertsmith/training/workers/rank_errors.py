"""Errors of one rank, raised on rank 0 with the name of the rank and its host, and messages."""

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from bertsmith.errors import BertsmithError, ConfigError, SettingError, TrainingError


def sendable(error: Exception) -> BertsmithError:
    """Return an error that can be pickled, and raised on rank 0 with a longer message.

    An error that is not a BertsmithError becomes a TrainingError with its type in the message.
    """
    if isinstance(error, SettingError):
        return ConfigError(error.message)
    if isinstance(error, BertsmithError):
        return error
    return TrainingError(f"{type(error).__name__}: {error}")


def results_of(answers: Sequence[tuple[BertsmithError | None, Any]], hosts: list[str]) -> list[Any]:
    """Return the results of all ranks, in order.

    Raises:
        BertsmithError: the first error that a rank sent; the message names the rank.
    """
    for rank, (error, _) in enumerate(answers):
        if error is not None:
            raise type(error)(f"rank {rank} on {hosts[rank]}: {error.message}")
    return [result for _, result in answers]


def print_on_rank(message: str) -> None:
    """Print a message on standard error, also of ranks other than 0, which are quiet else.

    If nobody can read it any more, the rank goes on.
    """
    with contextlib.suppress(OSError):
        print(f"bertsmith: {message}", file=sys.__stderr__, flush=True)
