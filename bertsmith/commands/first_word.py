"""Parse command lines whose flags depend on the task of the model that they name.

A tagger's files have other columns than a classifier's, and so other flags. First the model is
found: the first word that is neither a flag nor a flag's value. Then its task says by which class
of columns the line is parsed.
"""

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.help import HELP_FLAGS
from bertsmith.commands.option_words import option_words
from bertsmith.data.columns import (
    ChoiceColumns,
    Columns,
    QuestionColumns,
    RelatedColumns,
    TagColumns,
)

T = TypeVar("T")
ALL_COLUMNS = (ChoiceColumns, Columns, QuestionColumns, RelatedColumns, TagColumns)
"""The classes of columns of all tasks, as long as the task is not known."""


def defer_until_model_is_known(cls: type[Any], args: Sequence[str], prog: str) -> Sequence[str]:
    """Return the words of a line that names a model, without parsing them.

    The model's task decides which flags there are, so `parse_for_folder` in task_flags.py parses
    the line, once it has read the model's folder. A line without a model ends here, with help or
    an error.

    Args:
        cls: the settings of the command, apart from those of columns.
        args: the words after the name of the command.
        prog: the name of the command, such as "bertsmith predict", for messages.

    Raises:
        HelpRequested: the line names no model and asks for help.
        ConfigError: the line names no model.
    """
    if find_model(cls, args) is None:
        parse_with_columns(cls, Columns, args, prog)
    return args


def find_model(cls: type[Any], args: Sequence[str]) -> str | None:
    """Return the name of the model: the first word that is neither a flag nor a flag's value.

    Args:
        cls: the settings of the command, apart from those of columns.
    """
    return first_word(args, flag_types(cls, *ALL_COLUMNS))


def parse_with_columns(cls: type[T], columns: type[Any], args: Sequence[str], prog: str) -> T:
    """Parse a command line as `cls`, whose field `columns` has this type.

    `args` are the words after the name of the command, `prog` is this name, for messages.
    """
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(cls.__name__, [field], bases=(cls,), frozen=True)
    return cast(T, parse_settings(full, args, prog, inspect.getdoc(cls)))


def first_word(args: Sequence[str], types: Mapping[str, Any]) -> str | None:
    """Find the first argument that is neither a flag nor a flag's value.

    Args:
        types: the type hint of each flag by its name, such as {"json": bool}. A flag that is not
            among them counts as one with a value.
    """
    num_values = 0.0  # how many of the next words may be values of the flag before them
    words = option_words(args)
    for word in words:
        if word.startswith("--"):
            has_values = word not in HELP_FLAGS and "=" not in word
            name = word.removeprefix("--").removeprefix("no-").replace("-", "_")
            num_values = _most_values(types.get(name, str)) if has_values else 0
        elif num_values:
            num_values -= 1
        # `-` stands for texts of standard input, and `-h` asks for help; neither names a model.
        elif word not in ("-", "-h"):
            return word
    words_after_dashes = args[len(words) + 1 :]  # `words` are those before `--`
    return next(iter(words_after_dashes), None)


def flag_types(*settings: Any) -> dict[str, Any]:
    """Return the type hints of flags by name, also of those that nested settings have."""
    types: dict[str, Any] = {}
    for cls in settings:
        for name, hint in get_type_hints(cls).items():
            types |= flag_types(hint) if dataclasses.is_dataclass(hint) else {name: hint}
    return types


def _most_values(hint: Any) -> float:
    """Return how many words a flag of this type takes at most: 0 for a switch, inf for a tuple."""
    if hint is bool:
        return 0
    # The hint itself, or the members of a union such as `tuple[str, ...] | None`.
    are_several = any(get_origin(each) is tuple for each in (hint, *get_args(hint)))
    return math.inf if are_several else 1
