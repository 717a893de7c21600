"""What can go wrong for the user, as exceptions with a message they can act on.

A message names the place, what was found, what is allowed and what to do next, in that
order and in the user's own spelling. The command line prints it without a traceback and
exits with code 2; any other exception is a bug of ours and keeps its traceback.
"""

import warnings
from collections.abc import Mapping, Sequence


class BertsmithError(Exception):
    """A problem that the user can solve; the message says how."""


class InputError(BertsmithError):
    """A text, table or row that cannot be read as asked."""


class ConfigError(BertsmithError):
    """A recipe, preset or command-line setting that cannot be met."""


class CheckpointError(BertsmithError):
    """A model folder that is incomplete, altered or does not fit together."""


class CorpusError(BertsmithError):
    """A corpus folder that is incomplete, altered or does not fit the tokenizer."""


class TrainingError(BertsmithError):
    """A run that must not go on, such as one whose loss is no longer a number."""


class Interrupted(BertsmithError):  # noqa: N818 - a request by the user, not an error
    """The user asked to stop; what was done so far is saved, and the message says where."""


class BertsmithWarning(UserWarning):
    """What a user should know of and that stops nothing."""


told: set[object] = set()
"""The warnings that this process has given."""


def warn_once(message: str, state: object = None) -> None:
    """Warn, but not again of the same, in the same `state`: a folder is read several times."""
    if (message, state) not in told:
        told.add((message, state))
        warnings.warn(message, BertsmithWarning, stacklevel=3)


def check_seed(name: str, value: int) -> None:
    """Raise ConfigError unless `value` is a number that every generator takes."""
    if not 0 <= value < 2**63:
        raise ConfigError(f"{name}: found {value}; allowed is 0 to {2**63 - 1}.")


def check_choice(name: str, value: object, allowed: Sequence[str] | Mapping[str, object]) -> None:
    """Raise ConfigError unless `value` is one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:  # a list has no place in a mapping
        raise ConfigError(f"{name} is {value!r}. Choose one of: {', '.join(allowed)}.")
