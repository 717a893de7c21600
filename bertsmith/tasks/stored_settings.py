"""Check the settings that a task keeps in a model's config.json, which users may edit.

`ALLOWED_SETTINGS` has the allowed values for all tasks of this package but `embed`, which passes
a list of its own.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from bertsmith.data.label_schemes import Scheme
from bertsmith.data.label_separator import ALLOWED_SEPARATOR, is_label_separator
from bertsmith.data.label_values import LabelKind
from bertsmith.data.windowing import LongTexts
from bertsmith.errors import CheckpointError
from bertsmith.metrics.answers import Language
from bertsmith.model.config_file import CONFIG_FILE, TASK_SETTINGS
from bertsmith.system.json_text import shown_json
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tokenization.words import WordRule

AllowedValue = tuple[Callable[[Any], bool], str]
"""A function that returns whether a value is allowed, and the allowed values in words."""


def one_of(choices: Any) -> AllowedValue:
    """Allow the values of a Literal."""
    names: tuple[str, ...] = get_args(choices)
    return (lambda value: value in names), ", ".join(names)


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a finite number."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def are_written_numbers(value: Any) -> bool:
    """Return whether a value of JSON is a list of two or more strings with finite numbers.

    >>> are_written_numbers(["0.0", "0.2"]), are_written_numbers([0.0, 0.2])
    (True, False)
    """
    if not (isinstance(value, list) and len(value) > 1):
        return False
    try:
        return all(isinstance(text, str) and math.isfinite(float(text)) for text in value)
    except ValueError:
        return False


TRUE_OR_FALSE: AllowedValue = (lambda value: isinstance(value, bool), "true or false")

ALLOWED_SETTINGS: Mapping[str, AllowedValue] = {
    "long_texts": one_of(LongTexts),
    "stride": (lambda value: is_number(value) and value >= 0, "a number, 0 or more"),
    "scheme": one_of(Scheme),
    "split": one_of(WordRule),
    "label_kind": one_of(LabelKind),
    "pairs": TRUE_OR_FALSE,
    "label_separator": (is_label_separator, ALLOWED_SEPARATOR),
    "threshold": (is_number, "a number"),
    "may_abstain": TRUE_OR_FALSE,
    "max_answer_length": (lambda value: type(value) is int and value > 0, "a whole number above 0"),
    "language": one_of(Language),
    "numbers": (are_written_numbers, 'a list of two or more numbers, such as "0.2"'),
}
"""Allowed values of settings, by name: of those that `Task.stored` names in the tasks of this
package, and of those that several tasks share."""


def check_stored_settings(
    loaded: LoadedModel, allowed: Mapping[str, AllowedValue] = ALLOWED_SETTINGS
) -> None:
    """Check the settings that a model's config.json has for its task; each may be null or missing.

    `allowed` has a function that checks a value, and the allowed values in words, by name.

    Raises:
        CheckpointError: a setting has a value that is not allowed.
    """
    for name, (is_allowed, allowed_values) in allowed.items():
        value = loaded.model.task_settings.get(name)
        if value is not None and not is_allowed(value):
            raise CheckpointError(
                f"{loaded.folder.files.path(CONFIG_FILE)}: '{name}' of '{TASK_SETTINGS}' is "
                f"{shown_json(value)}; allowed is "
                f"{allowed_values}. Correct it there."
            )
