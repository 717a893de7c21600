"""`bertsmith finetune TASK`: labelled examples → a model that does the task."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_note, print_report
from bertsmith.commands.resume import print_resume_state, resume_command
from bertsmith.data.tables import check_delimiter
from bertsmith.distillation.run import distill
from bertsmith.distillation.settings import DistillSettings
from bertsmith.finetuning.fine_tuned import FineTuned
from bertsmith.finetuning.heads import training_function_for
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.model.config_file import own_settings
from bertsmith.model.model_folder import read_folder
from bertsmith.system.paths import check_outside, shell_path
from bertsmith.system.progress import has_details
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.task import Task
from bertsmith.training.display import Display

FIELD_NAMES = {"pair": "second text", "context": "passage"}
"""Names of an example's fields in the suggested command, where they differ from the fields'."""


def main(parsed: tuple[Any, DistillSettings | None], line: Sequence[str]) -> None:
    """Fine-tune a model and print its report.

    Args:
        parsed: the settings of the task and, with --teacher, those of the distillation.
        line: the words of the command, of which the third is the task.
    """
    settings, distill_settings = parsed
    unlabelled = None if distill_settings is None else distill_settings.unlabelled
    check_delimiter(settings.columns, settings.train, settings.eval, unlabelled)
    check_outside(settings.out, settings.model)
    task = task_named(line[2])
    command = resume_command(line)
    # The function that trains the head which --head names; with a teacher it is replaced below.
    train = training_function_for(settings)
    # A series is several runs, with different seeds or folds. Only a single run without
    # a teacher scores the baselines that take some seconds.
    if distill_settings is None and not settings.is_series:
        train = partial(train, has_costly_baselines=True)
    if distill_settings is not None:
        train = partial(distill, distill_settings, say=print_note)
    if settings.resume and not settings.is_series:
        print_resume_state(
            settings.out, overwrite=settings.overwrite, final_key="result", kind="fine-tuning"
        )
    with Display() as display:
        if settings.is_series:
            result: Any = finetune_repeatedly(
                task, settings, [display], command, print_note, train=train
            )
        else:
            result = train(task, settings, [display], command)
    if has_details() and isinstance(result, FineTuned):
        print_note(result.load_report)
    print_report(result, settings.json)
    if not settings.json and not settings.folds:
        stored = own_settings(read_folder(settings.out).settings)  # of the task, in config.json
        command = predict_command(task, settings.out, are_pairs=stored.get("pairs") is True)
        print(f"next      {command}")


def predict_command(task: type[Task[Any, Any]], model: Path, *, are_pairs: bool = False) -> str:
    """Return a command line for predictions on texts like those that a model learned from.

    `are_pairs` is whether its examples are pairs of texts, if the task allows both.
    """
    definition = task()
    number = 2 if are_pairs else definition.texts_per_example
    texts = [f"your {FIELD_NAMES.get(field, field)}" for field in definition.fields[: number or 1]]
    if number is None:  # a prompt and its endings
        texts += ["one ending", "another ending"]
    return with_import_flags(f"bertsmith predict {shell_path(model)} {shlex.join(texts)}")
