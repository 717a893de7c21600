"""Registry of tasks: the modules of this folder that have a class `TASK`."""

import importlib
import pkgutil
from functools import cache
from typing import Any

import bertsmith.tasks
from bertsmith.errors import ConfigError
from bertsmith.model.config_file import own_settings, task_head
from bertsmith.model.model_folder import ModelFolder
from bertsmith.tasks.task import Task


@cache
def tasks() -> dict[str, type[Task[Any, Any]]]:
    """Import all tasks; return them by name, in alphabetical order."""
    names = [module.name for module in pkgutil.iter_modules(bertsmith.tasks.__path__)]
    modules = [importlib.import_module(f"bertsmith.tasks.{name}") for name in sorted(names)]
    found = [module.TASK for module in modules if hasattr(module, "TASK")]
    return {task.name: task for task in found}


def task_named(name: str) -> type[Task[Any, Any]]:
    """Return the task of a name.

    Raises:
        ConfigError: there is none.
    """
    if name not in tasks():
        raise ConfigError(f"task: found '{name}'; allowed are {', '.join(tasks())}.")
    return tasks()[name]


def task_of_head(head: str) -> type[Task[Any, Any]] | None:
    """Return the task whose models have this head, if any."""
    return next((task for task in tasks().values() if head in task.heads), None)


def task_of_folder(folder: ModelFolder) -> type[Task[Any, Any]] | None:
    """Return the task that a folder's model was fine-tuned for, if any.

    The head decides; a model without one has the task named in its config.json, and a folder of
    sentence-transformers that of `embed`.
    """
    head = task_head(folder.settings)
    if head is not None:
        return task_of_head(head)
    name = "embed" if folder.files.has("modules.json") else "none"
    return tasks().get(str(own_settings(folder.settings).get("task", name)))
