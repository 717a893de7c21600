"""Flags that depend on the task of the model that a command line names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from bertsmith.commands.first_word import find_model, parse_with_columns
from bertsmith.commands.help import HELP_FLAGS
from bertsmith.commands.option_words import option_words
from bertsmith.commands.output import print_note
from bertsmith.data.columns import Columns
from bertsmith.errors import CheckpointError
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.catalog import task_of_folder
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Task
from bertsmith.training.workers.rank_group import joined_ranks

T = TypeVar("T")


def parse_for_folder(cls: type[T], args: Sequence[str], prog: str) -> tuple[T, ModelFolder | None]:
    """Parse a command line as `cls`, whose field `columns` has the type of the model's task.

    `args` are the words after the name of the command, `prog` is this name, for messages.

    Tasks have different columns in their files, and so different flags. Return the settings and the
    model's folder. The folder is None if `find_model` finds no model in the command line, for
    example if "-" (standard input) stands in its place. If the model cannot be read, --help shows
    the help of a classifier.

    Raises:
        CheckpointError: the model cannot be read.
    """
    model = find_model(cls, args)
    folder = None
    try:
        folder = None if model is None else read_folder(model)
    except CheckpointError:
        if not HELP_FLAGS & set(option_words(args)):
            raise
    task = None if folder is None else task_of_folder(folder)
    columns = Columns if task is None else task.columns
    return parse_with_columns(cls, columns, args, prog), folder


def load_with_flags(settings: Any, model: Path | ModelFolder) -> Predictor[Task[Any, Any]]:
    """Load a fine-tuned model with the options of a command line; print the note on its precision.

    If a launcher started several ranks, they predict together.
    """
    names = ("device", "precision", "max_length", "long_texts", "stride")
    predictor = load_predictor(model, **{name: getattr(settings, name) for name in names})
    print_note(predictor.loaded.precision_note)
    # This turns off the predictor's own warning: the command prints it with the results.
    predictor.unknown_tokens.is_reported = True
    predictor.ranks = joined_ranks()
    task = predictor.definition
    return predictor.with_definition(task.with_columns(settings.columns))
