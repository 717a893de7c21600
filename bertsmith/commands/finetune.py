"""`bertsmith finetune TASK`: labelled examples → a model that does the task."""

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.flags import parse_with_recipe, print_report, tell, unset_other
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.distillation.run import DistillSettings, distill
from bertsmith.errors import ConfigError
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.system.compute import FREE
from bertsmith.system.paths import check_outside, shell_path
from bertsmith.system.progress import has_details
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.settings.finetune import NOT_GIVEN, FinetuneSettings
from bertsmith.tasks.task import Task
from bertsmith.training.display import Display

TEACHER = """

With --teacher, the model also learns from the outputs of a larger model that was fine-tuned for the
same task (distillation), also on texts without labels (--unlabelled). Without --model it starts as
every second layer of its teacher. At the end the command compares both in size, speed and score."""

Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object instead of text.")]
Eval = Annotated[Path, tyro.conf.arg(help_behavior_hint="(required without --folds)")]
Model = Annotated[Path, tyro.conf.arg(help_behavior_hint="(required without --teacher)")]


@dataclass(frozen=True)
class StudentOfTask(DistillSettings):
    """Options of a run with a teacher."""

    teacher: Annotated[Path, tyro.conf.arg(help_behavior_hint="")] = NOT_GIVEN
    student: Annotated[Path | None, tyro.conf.Suppress] = None  # --model in this command


def parse(args: Sequence[str], prog: str) -> tuple[Any, DistillSettings | None]:
    """Read recipe and flags of the task that `prog` ends with: its settings, and a teacher's."""
    task = task_named(prog.split()[-1])
    description = f"{inspect.getdoc(task.settings)}{TEACHER}"
    args = unset_other(args, "epochs", "steps")
    settings: Any = parse_with_recipe(command_line(task), args, prog, description, "finetune")
    return with_student(settings, settings.distillation)


def command_line(task: type[Task[Any, Any]]) -> type[FinetuneSettings]:
    """Build the settings class: the task's, and flags of the command line alone."""
    fields = [
        ("model", Model, dataclasses.field(default=NOT_GIVEN)),
        ("eval", Eval, dataclasses.field(default=NOT_GIVEN)),
        ("distillation", StudentOfTask, dataclasses.field(default_factory=StudentOfTask)),
        ("json", Json, dataclasses.field(default=False, metadata=FREE)),
    ]
    return dataclasses.make_dataclass(
        "Settings", fields, bases=(task.settings,), frozen=True, kw_only=True
    )


def with_student(
    settings: FinetuneSettings, student: DistillSettings
) -> tuple[FinetuneSettings, DistillSettings | None]:
    """Return the settings with the model to begin with, and the teacher's if there is one.

    Raises:
        ConfigError: neither model nor teacher is given, or options of a teacher without one.
    """
    if student.teacher == NOT_GIVEN:
        for field in dataclasses.fields(student):
            if (found := getattr(student, field.name)) != field.default:
                flag = field.name.replace("_", "-")
                raise ConfigError(
                    f"--{flag} {found} needs a --teacher. Give one, too, or leave the option out."
                )
        if settings.model == NOT_GIVEN:
            raise ConfigError(
                "--model is missing. Name the folder of a pre-trained model, or a --teacher."
            )
        return settings, None
    if settings.model != NOT_GIVEN:
        student = replace(student, student=settings.model)
    are_other_texts = settings.folds or (settings.seeds and settings.sample)
    if student.cache is not None and are_other_texts:
        raise ConfigError(
            f"--cache does not go with --{'folds' if settings.folds else 'sample and --seeds'}: "
            "each of these runs learns from other texts. Leave one of them out."
        )
    student.check_out(settings.out)
    return replace(settings, model=student.start), student


def main(args: Sequence[str], prog: str) -> None:
    settings, student = parse(args, prog)
    check_outside(settings.out, settings.model)  # which only a comparison may do
    task, command = task_named(prog.split()[-1]), resume_command(args, prog)
    train: Callable[..., Any] = finetune
    if student is None and not settings.is_series:
        train = partial(finetune, has_costly_baselines=True)
    if student is not None:
        train = partial(distill, student, say=tell)
    if settings.resume and not settings.is_series:
        tell_where_it_resumes(settings.out)
    with Display() as display:
        if settings.is_series:
            result: Any = finetune_repeatedly(task, settings, [display], command, tell, train=train)
        else:
            result = train(task, settings, [display], command)
    if has_details() and not settings.is_series and student is None:
        tell(result.load_report)
    print_report(result, settings.json)
    if not settings.json and not settings.folds:  # which have learned from the whole file
        print(f"next      {predict_command(task, settings)}")


def predict_command(task: type[Task[Any, Any]], settings: FinetuneSettings) -> str:
    """Return a command line that asks the trained model about a text of the eval file's kind."""
    definition = task()
    number = definition.texts_per_example
    if settings.eval.is_file():  # what is no file cannot be read again
        reader = definition.reader(settings.eval, settings.columns, labelled=True)
        example = next(iter(reader.first(1)), None)
        number = 2 if getattr(example, "pair", None) is not None else number
    texts = [f"your {field}" for field in definition.fields[: number or 1]]
    if number is None:  # a prompt and its endings
        texts += ["one ending", "another"]
    model = shell_path(settings.out)
    return f"bertsmith predict {model} {' '.join(map(shlex.quote, texts))}"
