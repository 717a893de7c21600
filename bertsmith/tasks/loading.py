"""Load the predictor of a fine-tuned model: the model together with its task.

Only the task of this model is imported, which saves time.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.data.windowing import LongTexts, check_stride
from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.model.config_file import own_settings
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.catalog import task_of_folder
from bertsmith.tasks.inference import MISSING_HEAD
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Task


def load_predictor(
    path: str | Path | ModelFolder,
    *,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
    long_texts: LongTexts | None = None,
    stride: int | None = None,
) -> Predictor[Task[Any, Any]]:
    """Load the predictor of a fine-tuned model.

    A text that is longer than the model reads is cut, or read in windows, overlapping parts, as in
    training. `long_texts` ("window" or "cut") and `stride`, the overlap in tokens, change that.

    Raises:
        CheckpointError: the folder is incomplete, or its model was not fine-tuned for a task of
            bertsmith, or one of the user's that is imported.
        ConfigError: this machine has no such device or precision, or options for long texts are
            given and the task reads no windows.
    """
    folder = path if isinstance(path, ModelFolder) else read_folder(path)
    task = task_of_folder(folder)
    if task is None:
        folder.check_classifier(None)  # an error of its own for a classifier with another head
        name = own_settings(folder.settings).get("task")
        if name is not None:
            raise CheckpointError(
                f"{folder.path}: fine-tuned for {name!r}, which is no task of bertsmith. For a "
                "task of your own, import its module first (on the command line: 'bertsmith "
                "COMMAND --import MODULE')."
            )
        raise CheckpointError(f"{folder.path}: {MISSING_HEAD['classify']}")
    predictor = Predictor.load(
        folder, task, device=device, precision=precision, max_length=max_length
    )
    requested = {"long_texts": long_texts, "stride": stride}
    return predictor.with_definition(with_windowing(predictor.definition, requested))


def with_windowing(task: Task[Any, Any], requested: Mapping[str, Any]) -> Task[Any, Any]:
    """Return a copy of the task that treats long texts as `requested`, such as `{"stride": 32}`.

    The keys are fields of `Windowing`; values of None change nothing.

    Raises:
        ConfigError: the task reads no windows, or a stride is requested and long texts are cut.
    """
    changes = {name: value for name, value in requested.items() if value is not None}
    if not changes:
        return task
    if task.windowing is None:
        raise ConfigError(
            f"{option('long_texts')}, {option('stride')}: the task '{task.name}' reads no windows. "
            "Leave them out."
        )
    windowing = replace(task.windowing, **changes)
    check_stride(windowing.long_texts, requested.get("stride"))
    return replace(task, windowing=windowing)  # type: ignore[type-var]
