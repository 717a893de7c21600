"""Parse command lines whose flags depend on the task of the model that they name.

A tagger's files have other columns than a classifier's, and so other flags. First the model is
found: the first word that is neither a flag nor a flag's value. Then its task says by which class
of columns the line is parsed.
"""

import dataclasses
import inspect
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast, get_type_hints

from bertsmith.commands.flags import parse_settings
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
    return first_word(args, find_switches(cls, *ALL_COLUMNS))


def parse_with_columns(cls: type[T], columns: type[Any], args: Sequence[str], prog: str) -> T:
    """Parse a command line as `cls`, whose field `columns` has this type.

    `args` are the words after the name of the command, `prog` is this name, for messages.
    """
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(cls.__name__, [field], bases=(cls,), frozen=True)
    return cast(T, parse_settings(full, args, prog, inspect.getdoc(cls)))


def first_word(args: Sequence[str], switches: Collection[str]) -> str | None:
    """Find the first argument that is neither a flag nor a flag's value.

    Args:
        switches: the names of the flags that take no value, such as "json".
    """
    is_value = False  # whether the word before is a flag that takes a value
    words = option_words(args)
    for word in words:
        is_flag = word.startswith("--")
        # `-` stands for texts of standard input, and `-h` asks for help; neither names a model.
        if not is_flag and not is_value and word not in ("-", "-h"):
            return word
        name = word.removeprefix("--").removeprefix("no-").replace("-", "_")
        is_value = is_flag and "=" not in word and name not in (*switches, "help")
    words_after_dashes = args[len(words) + 1 :]  # `words` are those before `--`
    return next(iter(words_after_dashes), None)


def find_switches(*settings: Any) -> set[str]:
    """Collect the names of the flags without a value, also those of nested settings."""
    names: set[str] = set()
    for cls in settings:
        for name, hint in get_type_hints(cls).items():
            if hint is bool:
                names.add(name)
            elif dataclasses.is_dataclass(hint):
                names |= find_switches(hint)
    return names
