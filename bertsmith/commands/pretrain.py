"""`bertsmith pretrain`: teach a new BERT the texts of a corpus."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.request import Request, resume_command, tell_where_it_resumes
from bertsmith.config import parse_with_recipe
from bertsmith.pretrain import ModelSettings, PretrainJob, pretrain
from bertsmith.tasks.pretraining import PretrainingSettings
from bertsmith.training.display import Display
from bertsmith.training.optim import OptimSettings
from bertsmith.training.trainer import TrainingSettings

DESCRIPTION = """Teach a new BERT your texts.

The model reads rows of your text in which some words are hidden, and learns to guess them
(masked language modelling). Each row has two segments; it also learns to tell whether the second
follows the first in the text (next sentence prediction). No labels are needed. The result is a
Hugging Face folder, ready for `bertsmith fill` and `bertsmith finetune`.

A recipe (a .toml file, first) sets any of the options below; options on the line replace it."""


NOTED_SHARE = 0.01


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith pretrain`."""

    corpus: Path
    """The folder that `bertsmith corpus build` wrote."""
    out: Path
    """The folder for the model, its checkpoints, journal and curves."""
    model: Annotated[ModelSettings, tyro.conf.arg(name="")] = field(default_factory=ModelSettings)
    training: Annotated[TrainingSettings, tyro.conf.arg(name="")] = field(
        default_factory=TrainingSettings
    )
    pretraining: Annotated[PretrainingSettings, tyro.conf.arg(name="")] = field(
        default_factory=PretrainingSettings
    )
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def parse(args: Sequence[str], prog: str) -> Request[Settings]:
    """Read recipe and flags; a length on the line replaces the other kind in the recipe."""
    settings = parse_with_recipe(Settings, one_length(args), prog, DESCRIPTION)
    return Request(settings, resume_command(args, prog))


def main(request: Request[Settings]) -> None:
    """Train, then print what it came to."""
    settings = request.settings
    job = PretrainJob(
        corpus=settings.corpus,
        model=settings.model,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
    )
    if settings.resume:
        tell_where_it_resumes(settings.out)
    with Display() as display:
        result = pretrain(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            watchers=[display],
            resume_command=request.resume_command,
        )
    print(json.dumps(result) if settings.json else describe(result), file=sys.stdout)


def describe(result: dict[str, float | str]) -> str:
    """The end of a run in a few lines."""
    lines = [
        f"trained    {result['steps']:,} steps, {result['real_tokens']:,} tokens in "
        f"{float(result['elapsed_seconds']) / 60:.1f} minutes "
        f"({result['tokens_per_second']:,.0f} tokens/s, waited {result['waited_share']:.1%})"
    ]
    if float(result.get("single_sentence_share", 0.0)) > NOTED_SHARE:
        lines.append(
            f"note       {result['single_sentence_share']:.1%} of the text lies in documents of "
            "one sentence, which have no next sentence"
        )
    if "held_out_mlm_loss" in result:
        lines.append(
            f"held out   masked words: loss {result['held_out_mlm_loss']:.3f}, "
            f"{result['held_out_mlm_accuracy']:.1%} right "
            f"(word frequency alone: loss {result['held_out_unigram_entropy']:.3f})"
        )
    if "held_out_nsp_loss" in result:
        lines.append(
            f"           next sentence: loss {result['held_out_nsp_loss']:.3f}, "
            f"{result['held_out_nsp_accuracy']:.1%} right (a guess: 50.0%)"
        )
    lines.append(f"model      {result['out']}  (curves.png and journal.jsonl beside it)")
    lines.append(f'try        bertsmith fill {result["out"]} "… [MASK] …"')
    return "\n".join(lines)


def one_length(args: Sequence[str]) -> list[str]:
    """Unset `steps` where `minutes` is given on the line, and the reverse."""
    given = {word.split("=")[0] for word in args}
    unset = [
        [f"--{other}", "None"]
        for name, other in (("minutes", "steps"), ("steps", "minutes"))
        if f"--{name}" in given and f"--{other}" not in given
    ]
    return [*args, *(word for pair in unset for word in pair)]
