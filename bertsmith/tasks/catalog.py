"""Registry of tasks: the module that holds each task, by the task's name."""

import importlib
from typing import Any

from bertsmith.errors import SettingError
from bertsmith.model.config_file import own_settings, task_head
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.nested_folder import MODULES_FILE
from bertsmith.tasks.task import Task

TASKS = {
    "answer": "bertsmith.tasks.question_answering",
    "choose": "bertsmith.tasks.multiple_choice",
    "classify": "bertsmith.tasks.text_classification",
    "embed": "bertsmith.tasks.sentence_embedding",
    "regress": "bertsmith.tasks.regression",
    "tag": "bertsmith.tasks.token_classification",
}
"""Modules by the names of the tasks; each module assigns the task's class to `TASK`.
Modules of the user may add tasks (docs/extending.md)."""

# Modules of other classes for two of these tasks; each module assigns its class to `TASK`.
AVERAGED = "bertsmith.tasks.averaged_classification"
"""Module of `classify` by several models, whose probabilities are averaged."""
LINEAR = "bertsmith.tasks.linear_classification"
"""Module of `classify` by a linear head on the vectors of a frozen encoder."""
TEXT_TO_TEXT = {
    "classify": "bertsmith.tasks.text_to_text_classification",
    "regress": "bertsmith.tasks.text_to_text_regression",
}
"""Modules of `classify` and `regress` by a T5, which writes the label as a text."""


def tasks() -> dict[str, type[Task[Any, Any]]]:
    """Import all tasks; return them by name."""
    return {name: task_named(name) for name in TASKS}


def task_named(name: str) -> type[Task[Any, Any]]:
    """Import the task that has this name.

    Raises:
        ConfigError: there is no such task.
    """
    if name not in TASKS:
        raise SettingError("task", name, list(TASKS))
    return _task_in(TASKS[name])


def task_of_folder(folder: ModelFolder) -> type[Task[Any, Any]] | None:
    """Return the task that a folder's model was fine-tuned for, if any.

    The head that config.json names decides. A model with a linear head, or several models, classify
    texts. A T5 has the text-to-text form of its task. A model without any head has the task that
    config.json names. If it names none, a folder of sentence-transformers has the task `embed`.
    """
    if folder.files.has(LINEAR_HEAD_FILE):
        return _task_in(LINEAR)
    stored = own_settings(folder.settings)  # the settings in config.json that bertsmith wrote
    head = task_head(folder.settings)
    if head is None:
        name = str(stored.get("task"))
        if "task" not in stored and folder.files.has(MODULES_FILE):
            name = "embed"
        return task_named(name) if name in TASKS else None
    if stored.get(MEMBERS):  # the names of the other models of an average
        return _task_in(AVERAGED)
    if folder.family.config.writes_labels:  # a T5, whose head is "classify" or "regress"
        return _task_in(TEXT_TO_TEXT[head])
    # Only an imported task knows its heads, so the names that are likely to fit come first.
    names = [name for name in (str(stored.get("task")), head, *TASKS) if name in TASKS]
    return next((task for task in map(task_named, names) if head in task.heads), None)


def _task_in(module: str) -> type[Task[Any, Any]]:
    return importlib.import_module(module).TASK
