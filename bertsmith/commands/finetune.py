"""`bertsmith finetune TASK`: labelled examples → a model that does the task."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.flags import parse_with_recipe, print_report, tell
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.settings import NOT_GIVEN, FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.training.display import Display

RECIPE = """

A recipe (a .toml file, first) sets any of the options below; options on the line replace it."""

Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object instead of text.")]
Eval = Annotated[Path, tyro.conf.arg(help_behavior_hint="(required, but with --folds)")]


@dataclass(frozen=True)
class FinetuneRequest:
    """Parsed command line of `bertsmith finetune TASK`."""

    settings: FinetuneSettings
    resume_command: str
    task: type[Task[Any, Any]]
    json: bool


def parse(args: Sequence[str], prog: str) -> FinetuneRequest:
    """Read recipe and flags of the task that `prog` ends with."""
    task = task_named(prog.split()[-1])
    settings: Any = parse_with_recipe(command_line(task), args, prog, task.description + RECIPE)
    return FinetuneRequest(settings, resume_command(args, prog), task, settings.json)


def command_line(task: type[Task[Any, Any]]) -> type[FinetuneSettings]:
    """Build the settings class: the task's, and flags of the command line alone."""
    json = ("json", Json, dataclasses.field(default=False))
    needed = ("eval", Eval, dataclasses.field(default=NOT_GIVEN))
    return dataclasses.make_dataclass(
        "Settings", [needed, json], bases=(task.settings,), frozen=True
    )


def main(args: Sequence[str], prog: str) -> None:
    """Train, then print the scores."""
    request = parse(args, prog)
    if request.settings.is_series:
        repeat(request)
        return
    if request.settings.resume:
        tell_where_it_resumes(request.settings.out)
    with Display() as display:
        result = finetune(request.task, request.settings, [display], request.resume_command)
    tell(f"loaded: {result.load_report}")
    print_report(result, request.json)


def repeat(request: FinetuneRequest) -> None:
    """Fine-tune with several seeds or folds, then print the summary."""
    with Display() as display:
        repeats = finetune_repeatedly(
            request.task, request.settings, [display], request.resume_command, tell
        )
    print_report(repeats, request.json)
