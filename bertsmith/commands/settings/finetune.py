"""Options of `bertsmith finetune`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.commands.option_words import option_words
from bertsmith.distillation.settings import DistillSettings
from bertsmith.errors import ConfigError
from bertsmith.system.compute import FREE, Advanced
from bertsmith.tasks.settings.answer import AnswerSettings
from bertsmith.tasks.settings.choose import ChooseSettings
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.embed import EmbedSettings
from bertsmith.tasks.settings.finetune import NOT_GIVEN, FinetuneSettings
from bertsmith.tasks.settings.regress import RegressSettings
from bertsmith.tasks.settings.tag import TagSettings

TASK_SETTINGS: Mapping[str, type[FinetuneSettings]] = {
    "answer": AnswerSettings,
    "choose": ChooseSettings,
    "classify": ClassifySettings,
    "embed": EmbedSettings,
    "regress": RegressSettings,
    "tag": TagSettings,
}
OWN_TASKS = "bertsmith.tasks.catalog"
"""The module in which modules of the user register their tasks."""

TEACHER = """

With --teacher, the model also learns from the outputs of a larger model that was fine-tuned for the
same task (distillation), also on texts without labels (--unlabelled). Without --model it begins
with half of its teacher's layers (--num-layers takes another number). At the end the command
compares both in size, speed and score."""

Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object instead of text.")]
Eval = Annotated[Path, tyro.conf.arg(help_behavior_hint="(required without --folds)")]
Model = Annotated[Path, tyro.conf.arg(help_behavior_hint="(required without --teacher)")]


@dataclass(frozen=True)
class TeacherOptions(DistillSettings):
    """Options of a run with a teacher."""

    teacher: Advanced[Path] = NOT_GIVEN
    student: Annotated[Path | None, tyro.conf.Suppress] = None  # --model in this command


def parse(args: Sequence[str], prog: str) -> tuple[Any, DistillSettings | None]:
    """Parse recipe and flags of the task that `prog`, such as "bertsmith finetune tag", ends with.

    Return the settings of the task and, with --teacher, those of the distillation.
    """
    task = settings_of(prog.split()[-1])
    description = f"{inspect.getdoc(task)}{TEACHER}"
    args = unset_other(args, "epochs", "steps")
    settings: Any = parse_with_recipe(command_line(task), args, prog, description, kind="finetune")
    return with_start_model(settings, settings.distillation, args)


def settings_of(task: str) -> type[FinetuneSettings]:
    """Return the class of a task's settings."""
    if task in TASK_SETTINGS:
        return TASK_SETTINGS[task]
    # A task of the user's own. It is imported already, and torch with it.
    settings: type[FinetuneSettings] = import_module(OWN_TASKS).task_named(task).settings
    return settings


def command_line(task: type[FinetuneSettings]) -> type[FinetuneSettings]:
    """Build the class of the command's settings: those of the task, of a teacher, and --json.

    A line may lack --model (with --teacher) and --eval (with --folds), which the task's own
    settings need.
    """
    fields = [
        ("model", Model, dataclasses.field(default=NOT_GIVEN)),
        ("eval", Eval, dataclasses.field(default=NOT_GIVEN)),
        ("distillation", TeacherOptions, dataclasses.field(default_factory=TeacherOptions)),
        # FREE: it may differ when a run is resumed.
        ("json", Json, dataclasses.field(default=False, metadata=FREE)),
    ]
    return dataclasses.make_dataclass("Settings", fields, bases=(task,), frozen=True, kw_only=True)


def with_start_model(
    settings: FinetuneSettings, distillation: DistillSettings, args: Sequence[str]
) -> tuple[FinetuneSettings, DistillSettings | None]:
    """Return the settings with the model to begin with, and those of the distillation or None.

    Args:
        args: the words of the command line; an option that is not among them is set by a recipe.

    Raises:
        ConfigError: there is neither a model nor a teacher, or options of a teacher without one.
    """
    if distillation.teacher is NOT_GIVEN:
        given_flags = {word.partition("=")[0].replace("_", "-") for word in option_words(args)}
        for field in dataclasses.fields(distillation):
            value = getattr(distillation, field.name)
            if value == field.default:
                continue
            flag = f"--{field.name.replace('_', '-')}"
            if flag in given_flags:
                raise ConfigError(
                    f"{flag} {value} needs a --teacher. Give one, too, or leave the option out."
                )
            raise ConfigError(
                f"the recipe sets {flag} {value}, which needs a --teacher. Give one, too, or "
                "leave the recipe out."
            )
        if settings.model is NOT_GIVEN:
            raise ConfigError(
                "--model is missing. Name the folder of a pre-trained model, or a --teacher."
            )
        return settings, None
    if (head := getattr(settings, "head", "fine-tuned")) != "fine-tuned":
        raise ConfigError(
            f"--head {head} and --teacher exclude each other: only a fine-tuned model learns from "
            "a teacher. Leave one of them out."
        )
    if settings.model is not NOT_GIVEN:
        distillation = replace(distillation, student=settings.model)
    are_other_texts = settings.folds or (settings.seeds and settings.sample)
    if distillation.cache is not None and are_other_texts:
        other = "--folds" if settings.folds else "--sample and --seeds"
        raise ConfigError(
            f"--cache and {other} exclude each other: each of these runs learns from other texts. "
            "Leave one of them out."
        )
    distillation.check_out(settings.out)
    # `start` is the student's folder; without a student the teacher's, whose layers it is made of.
    return replace(settings, model=distillation.start), distillation
