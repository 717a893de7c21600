"""`bertsmith distill TASK`: a fine-tuned model and examples → a smaller one for the task."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.finetune import RECIPE, Eval, Json
from bertsmith.commands.flags import parse_with_recipe, print_report, tell
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.distillation.run import DistillSettings, distill
from bertsmith.errors import ConfigError
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.settings import NOT_GIVEN, FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.training.display import Display

DESCRIPTION = """Teach a smaller BERT what a fine-tuned one does: {task}.

Takes the larger model, the teacher, and two files of labelled examples, as 'bertsmith finetune
{task}' does. The student begins as every second layer of the teacher, and learns from the labels
and from how likely the teacher holds each answer. Texts without labels teach as well, and help most
where labels are few (--unlabelled). The result is a folder as any of this task; at the end teacher
and student are set side by side: parameters, file size, speed and scores."""

NoModel = Annotated[Path, tyro.conf.Suppress]


@dataclass(frozen=True)
class DistillRequest:
    """Parsed command line of `bertsmith distill TASK`."""

    settings: FinetuneSettings
    resume_command: str
    task: type[Task[Any, Any]]
    student: DistillSettings
    json: bool


def parse(args: Sequence[str], prog: str) -> DistillRequest:
    """Read recipe and flags of the task that `prog` ends with."""
    task = task_named(prog.split()[-1])
    settings: Any = parse_with_recipe(
        command_line(task),
        args,
        prog,
        DESCRIPTION.format(task=task.name) + RECIPE,
    )
    if settings.model != NOT_GIVEN:
        raise ConfigError(
            f"{args[0]}: 'model' is not a key of a distillation. Give 'teacher', and 'student' if "
            "it is not made of the teacher's layers, in a table [distillation]."
        )
    student = settings.distillation
    settings = replace(settings, model=student.start)
    return DistillRequest(settings, resume_command(args, prog), task, student, settings.json)


def command_line(task: type[Task[Any, Any]]) -> type[FinetuneSettings]:
    """Build the settings class: those of task and student, without the initial model."""
    fields = [
        ("distillation", DistillSettings, dataclasses.field(default_factory=DistillSettings)),
        ("eval", Eval, dataclasses.field(default=NOT_GIVEN)),
        ("model", NoModel, dataclasses.field(default=NOT_GIVEN)),
        ("json", Json, dataclasses.field(default=False)),
    ]
    return dataclasses.make_dataclass(
        "Settings", fields, bases=(task.settings,), frozen=True, kw_only=True
    )


def main(args: Sequence[str], prog: str) -> None:
    """Train, then print the scores and both models side by side."""
    request = parse(args, prog)
    if request.settings.is_series:
        repeat(request)
        return
    if request.settings.resume:
        tell_where_it_resumes(request.settings.out)
    with Display() as display:
        result = distill(
            request.task, request.settings, request.student, [display], request.resume_command,
            say=tell,
        )  # fmt: skip
    print_report(result, request.json)


def repeat(request: DistillRequest) -> None:
    """Distill with several seeds or folds, then print the summary."""
    if request.settings.folds is not None and request.student.cache is not None:
        raise ConfigError(
            "--cache and --folds exclude each other: each fold learns from other texts. Leave one "
            "of them out."
        )
    request.student.check_out(request.settings.out)
    with Display() as display:
        repeats = finetune_repeatedly(
            request.task, request.settings, [display], request.resume_command, tell,
            train=partial(_distill, request.student),
        )  # fmt: skip
    print_report(repeats, request.json)


def _distill(student: DistillSettings, task: Any, settings: Any, *args: Any, **named: Any) -> Any:
    return distill(task, settings, student, *args, say=tell, **named)
