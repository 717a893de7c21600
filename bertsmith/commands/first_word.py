"""Parse command lines whose flags depend on the task of the model that they name."""

import dataclasses
import inspect
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast, get_type_hints

from bertsmith.commands.flags import parse_settings
from bertsmith.data.columns import (
    ChoiceColumns,
    Columns,
    QuestionColumns,
    RelatedColumns,
    TagColumns,
)

T = TypeVar("T")
ALL_COLUMNS = (ChoiceColumns, Columns, QuestionColumns, RelatedColumns, TagColumns)


def parse_unless_model(cls: type[Any], args: Sequence[str], prog: str) -> Sequence[str]:
    """Return a line unparsed if it names a model; otherwise raise its mistake, or its help.

    Raises:
        HelpRequested: the line names no model and asks for help.
        ConfigError: the line names no model, or has another mistake.
    """
    if find_model(cls, args) is None:
        parse_with_columns(cls, Columns, args, prog)
    return args


def find_model(cls: type[Any], args: Sequence[str]) -> str | None:
    """Return the name of the model: the first word that is neither a flag nor a flag's value."""
    return first_word(args, switches(cls, *ALL_COLUMNS))


def parse_with_columns(cls: type[T], columns: type[Any], args: Sequence[str], prog: str) -> T:
    """Parse a command line as `cls`, whose field `columns` has this type."""
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(cls.__name__, [field], bases=(cls,), frozen=True)
    return cast(T, parse_settings(full, args, prog, inspect.getdoc(cls)))


def first_word(args: Sequence[str], switches: Collection[str]) -> str | None:
    """Find the first argument that is neither a flag nor a flag's value."""
    is_value = False
    for word in args:
        is_flag = word.startswith("--")
        if not is_flag and not is_value and word not in ("-", "-h"):
            return word
        name = word.removeprefix("--").removeprefix("no-").replace("-", "_")
        is_value = is_flag and "=" not in word and name not in (*switches, "help", "")
    return None


def switches(*settings: Any) -> set[str]:
    """Collect the names of flags without a value."""
    hints = [item for cls in settings for item in get_type_hints(cls).items()]
    inner = [hint for _, hint in hints if dataclasses.is_dataclass(hint)]
    return {name for name, hint in hints if hint is bool} | (switches(*inner) if inner else set())
