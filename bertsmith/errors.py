"""Problems that the user can solve, as exceptions.

A message names the place, what was found, what is allowed and what to do next, in that
order and in the user's own spelling. The command line prints it without a traceback and
exits with code 2; any other exception is a bug of ours and keeps its traceback.
"""

import errno
import warnings
from pathlib import Path
from typing import TypeVar

ErrorT = TypeVar("ErrorT", bound="BertsmithError")

MORE_FILES = "Allow more open files (ulimit -n 4096), then run the command again."
SYSTEM_ADVICE = {
    errno.ENOSPC: "Free some space or choose another folder.",
    errno.EDQUOT: "Your quota is used up: free some space or choose another folder.",
    errno.EFBIG: "The file would be larger than allowed here; choose another folder.",
    errno.EACCES: "Change the permissions or choose another place.",
    errno.EPERM: "Change the permissions or choose another place.",
    errno.EROFS: "The file system is read-only; choose another place.",
    errno.EMFILE: MORE_FILES,
    errno.ENFILE: MORE_FILES,
    errno.ENOMEM: "Close other programs, or use a computer with more memory.",
    errno.EIO: "The disk or the network behind it has failed; choose another place.",
    errno.ENOENT: "Check the spelling.",
    errno.ENOTDIR: "Check the spelling: a file stands where a folder is named.",
    errno.EISDIR: "Name a file in it.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}
"""The way out of what the system refuses."""


class BertsmithError(Exception):
    """A problem that the user can solve; the message says how."""


class InputError(BertsmithError, ValueError):
    """A text, table or row that cannot be read as asked."""


class ConfigError(BertsmithError, ValueError):
    """A recipe, preset or command-line setting that cannot be met."""


class NotFittedError(BertsmithError, ValueError, AttributeError):
    """An estimator that is asked for what it has not learned yet."""


class CheckpointError(BertsmithError, ValueError):
    """A model folder that is incomplete, altered or does not fit together."""


class CorpusError(BertsmithError, ValueError):
    """A corpus folder that is incomplete, altered or does not fit the tokenizer."""


class TrainingError(BertsmithError):
    """A run that must not go on, such as one whose loss is no longer a number."""


class Interrupted(BertsmithError):  # noqa: N818 - a request by the user, not an error
    """The user asked to stop; what was done so far is saved, and the message says where."""


class BertsmithWarning(UserWarning):
    """A remark for the user that stops nothing."""


given_warnings: set[object] = set()
"""The warnings that this process has given."""


def warn_once(message: str, state: object = None) -> None:
    """Warn once for each message and `state`: a folder is read several times."""
    if (message, state) not in given_warnings:
        given_warnings.add((message, state))
        warnings.warn(message, BertsmithWarning, stacklevel=3)


def advice_on(error: OSError) -> str:
    return SYSTEM_ADVICE.get(error.errno or 0, "Check the path, or choose another place.")


def read_error(kind: type[ErrorT], path: Path | str, error: OSError) -> ErrorT:
    return kind(f"{path}: cannot be read ({error.strerror or error}). {advice_on(error)}")
