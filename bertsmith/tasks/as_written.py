"""The choice of the form in which a model does a task: by a head, or by writing its answer."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from bertsmith.data.examples import Example
from bertsmith.errors import ConfigError, option
from bertsmith.model.model_folder import ModelFolder
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.written_classification import WrittenClassify
from bertsmith.tasks.written_regression import WrittenRegress
from bertsmith.tasks.written_task import WrittenTask

UNUSED = ("from_scratch", "class_weights", "label_smoothing", "focal_gamma")
"""Settings that have no use for a model that writes its answer."""


def as_written(
    task: Task[Any, Any],
    folder: ModelFolder,
    settings: FinetuneSettings,
    train: Sequence[Example],
) -> Task[Any, Any]:
    """Return the task as the folder's model does it: by writing the answer, or as it is.

    Raises:
        ConfigError: the model writes, and cannot do this task, or has no use for a setting; or it
            cannot spell an answer.
        InputError: numbers are too many to be written.
    """
    if not folder.family.config.writes_labels:
        return task
    if type(task) not in (Classify, Regress):
        raise ConfigError(
            f"{folder.path}: a T5 writes one label for each text. Leave out "
            f"{option('multi_label', True)}, or choose an encoder, such as a BERT."
        )
    for each in fields(settings):
        if each.name in UNUSED and getattr(settings, each.name) != each.default:
            raise ConfigError(
                f"{option(each.name)} has no use for a T5, which learns to write labels as texts. "
                "Leave it out."
            )
    if isinstance(task, Classify):
        written: WrittenTask[Any] = WrittenClassify(**_values(task, Classify))
    else:
        written = WrittenRegress(**_values(task, Regress)).with_numbers(train, settings.train)
    return written.with_vocabulary(folder.tokenizer, folder.config)


def _values(task: Task[Any, Any], kind: type[Classify] | type[Regress]) -> dict[str, Any]:
    return {each.name: getattr(task, each.name) for each in fields(kind)}
