"""Problems that the user can solve, as exceptions.

A message says where the problem is, what was found, what is allowed and what to do next, in that
order. The command line prints it without a traceback and exits with code 2; after `Interrupted` the
exit code names the signal, such as 130 for Ctrl-C. Lack of memory and errors of the operating
system are shown in the same way (see `_report_errors` in cli.py). Any other exception is a bug in
bertsmith and keeps its traceback.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertsmith.errors.option_names import (
    NamedOption,
    as_arguments,
    as_fields,
    option,
    options_in,
)


class BertsmithError(Exception):
    """A problem that the user can solve; the message says how.

    `str(error)` spells options as arguments of a Python call. `message` has invisible marks around
    the names of options, which the function `option` put there. By these marks the options can also
    be spelled as flags or JSON fields, even after `message` became part of another message.
    """

    @property
    def message(self) -> str:
        """The message, whose options are marked as `option` marks them."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return as_arguments(self.message)

    def of_command(self, command: str) -> "BertsmithError":
        """Return the error for a command line that begins with `command`, such as "predict".

        This base class returns the error itself. Subclasses whose message names the command
        override it.
        """
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the error as fields of JSON, for programs."""
        return {
            "type": type(self).__name__,
            "message": as_fields(self.message),
            "options": [named.name for named in options_in(self.message)],
        }


class InputError(BertsmithError, ValueError):
    """A text, table or row that cannot be read with these settings."""


class WriteError(InputError):
    """A file or folder that cannot be written; an `InputError`, as the user gave its path.

    Args:
        problem: a sentence that names the path and the cause.
        advice: what to do.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem = problem
        self.advice = advice

    @property
    def message(self) -> str:
        return f"{self.problem} {self.advice}"


class ExamplesError(InputError):
    """Examples that can be read, but not learned from or scored, such as examples of one class."""


class ConfigError(BertsmithError, ValueError):
    """A setting of a recipe, a preset, a call or the command line that is not allowed."""


class SettingError(ConfigError):
    """A setting whose value is not allowed.

    Args:
        setting: the name of the setting, as for `option`.
        found: its value.
        allowed: the allowed values in words, such as "1 or more", or a list of the allowed names.
        advice: what to do, if that is not obvious.
        source: the file or recipe that has the setting; the message then spells options as
            arguments, because they are not flags there.
    """

    def __init__(
        self,
        setting: str,
        found: object,
        allowed: str | Sequence[str],
        advice: str = "",
        source: str = "",
    ) -> None:
        super().__init__(setting, found, allowed, advice, source)
        self.setting = setting
        self.found = found
        self.allowed = allowed
        self.advice = advice
        self.source = source

    @property
    def message(self) -> str:
        if not self.source:
            return self._describe()
        return f"{self.source}: {as_arguments(self._describe())}"

    def _describe(self) -> str:
        is_text = isinstance(self.found, str | Path)
        shown = repr(str(self.found)) if is_text else str(self.found)
        if isinstance(self.allowed, str):
            allowed = f"allowed is {self.allowed}"
        else:
            *names, last = self.allowed
            allowed = (
                f"allowed are {', '.join(names)} and {last}" if names else f"allowed is {last}"
            )
        advice = f" {self.advice}" if self.advice else ""
        return f"{option(self.setting)}: found {shown}; {allowed}.{advice}"

    def to_json(self) -> dict[str, Any]:
        """Return the error as fields of JSON, with the setting, its value and allowed values."""
        return {
            **super().to_json(),
            # The message of a setting of a file has no marks, by which options are found.
            "options": [named.name for named in options_in(self._describe())],
            "setting": NamedOption(self.setting).name,
            "found": self.found if isinstance(self.found, bool | int | float) else str(self.found),
            "allowed": self.allowed if isinstance(self.allowed, str) else list(self.allowed),
            "advice": as_fields(self.advice),
        }


class NotFittedError(BertsmithError, ValueError, AttributeError):
    """An estimator that must be fitted before this call."""


class CheckpointError(BertsmithError, ValueError):
    """A model folder that is incomplete or altered, or whose files do not match."""


class CorpusError(BertsmithError, ValueError):
    """A corpus folder that is incomplete or altered, or does not match the tokenizer."""


class TrainingError(BertsmithError):
    """A run that must end, such as one whose loss is NaN."""


class NotFiniteError(TrainingError):
    """A step whose loss or gradient is NaN or infinite.

    Args:
        problem: sentences that name the step and its figures.
        rows: the rows of the step, perhaps shortened.
        advice: what to do.
        file: the file that holds all rows; None if there is no such file any more.
    """

    def __init__(self, problem: str, rows: str, advice: str, file: Path | None) -> None:
        super().__init__(problem, rows, advice, file)
        self.problem = problem
        self.rows = rows
        self.advice = advice
        self.file = file

    @property
    def message(self) -> str:
        location = "" if self.file is None else f" (all in {self.file})"
        return f"{self.problem} Rows: {self.rows}{location}. {self.advice}"

    def without_file(self) -> "NotFiniteError":
        """Return the error for a file that is about to be removed with its temporary folder."""
        return NotFiniteError(self.problem, self.rows, self.advice, file=None)


class Interrupted(BertsmithError):  # noqa: N818 - requested by the user, not an error
    """The user asked to stop; the message says where the work done so far is saved."""
