"""Command-line flags that depend on the task of the model that the line names."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast, get_type_hints

import tyro

from bertsmith.data.examples import Columns
from bertsmith.errors import CheckpointError
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.catalog import task_of_folder, tasks

T = TypeVar("T")


def parse_for_folder(settings: type[T], args: Sequence[str], prog: str, description: str) -> T:
    """Parse a command line as `settings`, whose field `columns` has the task's type."""
    columns = columns_type(settings, args)
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(settings.__name__, [field], bases=(settings,), frozen=True)
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return cast(T, tyro.cli(full, args=args, prog=prog, description=description, config=config))


def columns_type(settings: type[Any], args: Sequence[str]) -> type[Any]:
    """Return the columns class of the model's task; `Columns` without one.

    Raises:
        CheckpointError: there is no such model. For --help it makes no difference.
    """
    model = first_word(args, switches(settings))
    if model is None:
        return Columns
    try:
        task = task_of_folder(read_folder(model))
    except CheckpointError:
        if not {"-h", "--help"} & set(args):
            raise
        return Columns
    return Columns if task is None else task.columns


def first_word(args: Sequence[str], switches: Collection[str]) -> str | None:
    """Find the first argument that is neither a flag nor a flag's value."""
    is_value = False
    for word in args:
        is_flag = word.startswith("--")
        if not is_flag and not is_value and word not in ("-", "-h"):
            return word
        name = word.removeprefix("--").replace("-", "_")
        is_value = is_flag and "=" not in word and name not in switches
    return None


def switches(settings: type[Any]) -> set[str]:
    """Collect the flags without a value, of a command and of any task."""
    readers = [task.columns for task in tasks().values()]
    hints = [get_type_hints(reader) for reader in (settings, *readers)]
    return {name for fields in hints for name, hint in fields.items() if hint is bool} | {
        "help",
        "",
    }
