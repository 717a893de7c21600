"""`bertsmith pretrain`: a corpus → a pre-trained BERT."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.system.files import hold_outputs
from bertsmith.system.paths import free_path, shell_path
from bertsmith.training.display import Display
from bertsmith.training.findings import find_plateau
from bertsmith.training.page import RunPage
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import OptimSettings, TrainingSettings

DESCRIPTION = """Pre-train a BERT on your texts.

The model reads rows of your text in which some tokens are hidden, and learns to predict them
(masked LM). Each row has two segments, and the model also learns to tell whether the second follows
the first in the text (next sentence prediction); --pairs chooses another task, or none. No labels
are needed. The result is a Hugging Face folder for `bertsmith fill` and `bertsmith finetune`.

With --from, the command continues a model that was pre-trained on other texts. It keeps the model's
vocabulary; `bertsmith tokenizer extend` adds tokens to it.

With --recipe, the command starts from settings that were tried: quarter-hour learns the most in 15
minutes on a laptop; hour and night are for more time."""


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith pretrain`."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints, journal and curves."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Model to continue from: a folder, or "org/name" on the Hugging Face hub. The corpus must be
    built with its tokenizer or an extension of it."""
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    page: Path | None = None
    """HTML page to write while the run lasts: its curves and settings. A browser loads it again
    every ten seconds by itself."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def build_job(settings: Settings, corpus: Path | None = None) -> PretrainJob:
    """Build the job of the settings, over their corpus or another."""
    return PretrainJob(
        corpus=corpus or settings.corpus,
        model=settings.model,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
        from_=settings.from_,
    )


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; a given length unsets the recipe's other kind."""
    return parse_with_recipe(
        Settings, unset_other(args, "minutes", "steps"), prog, DESCRIPTION, "pretrain"
    )


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(args, prog)
    job = build_job(settings)
    if settings.resume:
        # Before it is told, since what is refused does not go on.
        RunFolder(settings.out).check(resume=True, overwrite=settings.overwrite)
        tell_where_it_resumes(settings.out)
    with ExitStack() as stack:
        callbacks: list[Callback] = [stack.enter_context(Display())]
        if settings.page is not None:
            stack.enter_context(hold_outputs({"--page": settings.page}, None))
            callbacks.append(stack.enter_context(RunPage(settings.page, RunFolder(settings.out))))
        result = run_pretraining(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=callbacks,
            resume_command=resume_command(args, prog),
        )
    print(json.dumps(result) if settings.json else describe_run(result))


def describe_run(result: dict[str, Any]) -> str:
    return "\n".join([*describe_pretraining(result), *suggest_commands(result)])


def suggest_commands(result: Mapping[str, Any]) -> list[str]:
    """List commands that use the model; none before it knows more than token frequencies."""
    if find_plateau(result) is not None:
        return []
    guesser = f"{result['out']}/{GENERATOR}" if "rtd_loss" in result else result["out"]
    mask = result.get("mask_token", "[MASK]")
    model, task = Path(result["out"]), "--train train.csv --eval dev.csv"
    out = free_path(model.with_name(f"{model.name.removesuffix('-bert')}-classifier"))
    return [
        f'try        bertsmith fill {shell_path(guesser)} "… {mask} …"',
        f"next       bertsmith finetune classify --model {shell_path(model)} {task} "
        f"--out {shell_path(out)}",
    ]
