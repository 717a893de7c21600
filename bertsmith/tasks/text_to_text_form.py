"""The choice between the two forms of a task: with a head, for BERT, or text-to-text, for a T5."""

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
from bertsmith.tasks.text_to_text_classification import TextToTextClassify
from bertsmith.tasks.text_to_text_regression import TextToTextRegress
from bertsmith.tasks.text_to_text_task import TextToTextTask

UNUSED_SETTINGS = ("from_scratch", "class_weights", "label_smoothing", "focal_gamma")
"""Settings that do not apply to a text-to-text task."""


def in_form_of_model(
    task: Task[Any, Any],
    folder: ModelFolder,
    settings: FinetuneSettings,
    train: Sequence[Example],
) -> Task[Any, Any]:
    """Return the task in the form that the folder's model needs: text-to-text for a T5.

    Raises:
        ConfigError: the task has no text-to-text form, or no use for a setting, or the vocabulary
            cannot spell an answer.
        InputError: numbers of a regression are in too wide a range.
    """
    if not folder.family.config.writes_labels:  # not a T5
        return task
    if type(task) not in (Classify, Regress):  # such as `MultiLabel`
        raise ConfigError(
            f"{folder.path}: a T5 writes one label for each text. Leave out "
            f"{option('multi_label', True)}, or choose an encoder, such as a BERT."
        )
    for setting in fields(settings):  # a value that is not the default is the user's
        if setting.name in UNUSED_SETTINGS and getattr(settings, setting.name) != setting.default:
            raise ConfigError(
                f"{option(setting.name)} has no use for a T5, which learns to write labels as "
                "texts. Leave it out."
            )
    if isinstance(task, Classify):
        text_to_text: TextToTextTask[Any] = TextToTextClassify(**_fields_of(task))
    else:  # the T5 writes multiples of 0.2 in the range of the labels
        text_to_text = TextToTextRegress(**_fields_of(task)).with_numbers(train, settings.train)
    return text_to_text.with_vocabulary(folder.tokenizer, folder.config)


def _fields_of(task: Any) -> dict[str, Any]:
    """Return the values of a task's fields by their names."""
    return {field.name: getattr(task, field.name) for field in fields(task)}
