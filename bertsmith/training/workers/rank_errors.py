"""Send errors of other ranks to rank 0, which raises them, and print messages of ranks.

A rank is one of the machines or GPUs that train together. Rank 0 trains, the others compute what it
asks for.
"""

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from bertsmith.errors import BertsmithError, TrainingError


def sendable(error: Exception) -> BertsmithError:
    """Convert an error to one that can be pickled, and raised on rank 0 with a longer message.

    An error that is not a BertsmithError becomes a TrainingError with its type in the message. The
    class of an error may take other arguments than a message, as SettingError does. The result is
    then of the nearest parent class that takes only a message.
    """
    if not isinstance(error, BertsmithError):
        return TrainingError(f"{type(error).__name__}: {error}")
    kind: type[Any] = type(error)
    while "__init__" in kind.__dict__:
        kind = kind.__bases__[0]
    sent: BertsmithError = kind(error.message)
    return sent


def results_of(answers: Sequence[tuple[BertsmithError | None, Any]], hosts: list[str]) -> list[Any]:
    """Return the results of all ranks, in order.

    Args:
        answers: for each rank the error that `sendable` made, or None, and the result.
        hosts: the host name of each rank.

    Raises:
        BertsmithError: the first error that a rank sent; the message names the rank.
    """
    for rank, (error, _) in enumerate(answers):
        if error is not None:
            raise type(error)(f"rank {rank} on {hosts[rank]}: {error.message}")
    return [result for _, result in answers]


def print_on_rank(message: str) -> None:
    """Print a message on standard error, on any rank; all other output of ranks above 0 is dropped.

    If nobody can read it any more, the rank goes on.
    """
    with contextlib.suppress(OSError):
        print(f"bertsmith: {message}", file=sys.__stderr__, flush=True)
