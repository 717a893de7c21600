"""Flags that depend on the task of the model that a line names."""

import dataclasses
import inspect
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from bertsmith.commands.flags import parse, tell
from bertsmith.commands.help import HELP_FLAGS
from bertsmith.data.columns import Columns
from bertsmith.errors import CheckpointError
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.auto import load_predictor
from bertsmith.tasks.catalog import task_of_folder, tasks
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Task

T = TypeVar("T")


def parse_for_folder(cls: type[T], args: Sequence[str], prog: str) -> tuple[T, ModelFolder | None]:
    """Parse a command line as `cls`, whose field `columns` has the type of the model's task.

    Return the settings, and the folder that was read for it, which need not be read again.

    Raises:
        CheckpointError: there is no such model. For --help it makes no difference.
    """
    readers = [task.columns for task in tasks().values()]
    model = first_word(args, switches(cls, *readers))
    folder = None
    try:
        folder = None if model is None else read_folder(model)
    except CheckpointError:
        if not HELP_FLAGS & set(args):
            raise
    task = None if folder is None else task_of_folder(folder)
    columns = Columns if task is None else task.columns
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(cls.__name__, [field], bases=(cls,), frozen=True)
    return cast(T, parse(full, args, prog, inspect.getdoc(cls))), folder


def load_as_told(settings: Any, model: Path | ModelFolder) -> Predictor[Task[Any, Any]]:
    """Load a fine-tuned model as the flags of a line say; tell of its precision."""
    names = ("device", "precision", "max_length", "long_texts", "stride")
    predictor = load_predictor(model, **{name: getattr(settings, name) for name in names})
    tell(predictor.loaded.precision_note)
    predictor.unknown_tokens.is_told = True  # told beside the results
    return predictor.with_definition(predictor.definition.with_columns(settings.columns))


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
