"""`bertsmith distill pretraining`: a pre-trained model and a corpus → a smaller model."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.commands.output import print_json
from bertsmith.commands.pretrain import suggest_commands
from bertsmith.commands.resume import print_resume_state, resume_command
from bertsmith.commands.settings.distill_pretraining import Settings
from bertsmith.distillation.pretraining_run import DistillPretrainingJob, distill_pretraining
from bertsmith.evaluation.side_by_side import ModelComparison
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Pre-train a student and print its results; `line` is for the advice on how to resume."""
    job = DistillPretrainingJob(
        corpus=settings.corpus,
        distillation=settings.distillation,
        pretraining=settings.pretraining,
        training=settings.training,
        optim=settings.optim,
    )
    if settings.resume:
        print_resume_state(settings.out, overwrite=settings.overwrite, final_key="comparison")
    with Display() as display:
        result, comparison = distill_pretraining(
            job,
            settings.out,
            resume=settings.resume,
            overwrite=settings.overwrite,
            callbacks=[display],
            resume_command=resume_command(line),
        )
    if settings.json:
        print_json({**result, "comparison": comparison.to_json()})
    else:
        print(describe_student(result, comparison))


def describe_student(result: Mapping[str, Any], comparison: ModelComparison) -> str:
    """Describe a run, and compare its student with the teacher; the next commands come last.

    `result` is the summary of the run: steps, losses, speed and facts about the corpus.
    """
    lines = [
        *describe_pretraining(result),
        f"student    {result['made_of']}",
        "",
        "teacher (before) and student (after):",
        str(comparison),
    ]
    if commands := suggest_commands(result):
        lines += ["", *commands]
    return "\n".join(lines)
