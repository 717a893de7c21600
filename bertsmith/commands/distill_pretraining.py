"""`bertsmith distill pretraining`: a pre-trained model and a corpus → a smaller one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.commands.pretrain import describe_run
from bertsmith.commands.resume import resume_command, tell_where_it_resumes
from bertsmith.distillation.pretraining_run import (
    DistillPretrainingJob,
    PretrainingStudentSettings,
    distill_pretraining,
)
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.display import Display
from bertsmith.training.settings import OptimSettings, TrainingSettings

DESCRIPTION = """Teach a smaller BERT your texts with the help of a larger one: DistilBERT's recipe.

The student starts as every second layer of the teacher. It learns to predict masked tokens, to give
the teacher's probabilities for them, and to match its last hidden states. No labels are needed. The
result is a Hugging Face folder for `bertsmith fill` and `bertsmith finetune`; at the end the
command compares teacher and student."""


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith distill pretraining`."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote, with the teacher's vocabulary."""
    out: Path
    """Folder for the student, its checkpoints, journal and curves."""
    distillation: PretrainingStudentSettings = field(default_factory=PretrainingStudentSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    pretraining: PretrainingSettings = field(
        default_factory=lambda: PretrainingSettings(pairs="none")
    )
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; a given length unsets the recipe's other kind."""
    return parse_with_recipe(
        Settings, unset_other(args, "minutes", "steps"), prog, DESCRIPTION, "distill"
    )


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(args, prog)
    job = DistillPretrainingJob(
        corpus=settings.corpus,
        student=settings.distillation,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
    )
    if settings.resume:
        tell_where_it_resumes(settings.out)
    with Display() as display:
        result = distill_pretraining(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=[display],
            resume_command=resume_command(args, prog),
        )
    comparison = result.pop("comparison")
    if settings.json:
        print(json.dumps({**result, "comparison": comparison.to_json()}))
    else:
        print(describe_run(result), f"student    {result['student']}", sep="\n")
        print("", "teacher (before) and student (after):", comparison, sep="\n")
