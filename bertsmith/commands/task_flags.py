"""Flags that depend on a task: how its files are read, by the folder that a command line names."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import tyro

from bertsmith.data.examples import Columns
from bertsmith.tasks.catalog import task_of_folder

T = TypeVar("T")


def parse_for_folder(settings: type[T], args: Sequence[str], prog: str, description: str) -> T:
    """Parse a command line as `settings`, whose field `columns` has the task's type."""
    columns = columns_type(args)
    field = ("columns", columns, dataclasses.field(default_factory=columns))
    full = dataclasses.make_dataclass(settings.__name__, [field], bases=(settings,), frozen=True)
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return cast(T, tyro.cli(full, args=args, prog=prog, description=description, config=config))


def columns_type(args: Sequence[str]) -> type[Any]:
    """How the task of the folder among `args` reads its files; as tables where there is none."""
    folder = next((word for word in args if (Path(word) / "config.json").is_file()), None)
    task = None if folder is None else task_of_folder(folder)
    return Columns if task is None else task.columns
