"""Options of `bertsmith distill pretraining`: each field is one, and its docstring is the help."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.distillation.settings import PretrainingStudentSettings
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings

DESCRIPTION = """Teach a smaller BERT your texts with the help of a larger one: DistilBERT's recipe.

The student begins with half of the teacher's layers (--num-layers takes another number, --student
another model). It learns to predict masked tokens, to give the teacher's probabilities for them,
and to match its last hidden states. No labels are needed. The result is a Hugging Face folder for
`bertsmith fill` and `bertsmith finetune`. At the end the command compares teacher and student."""


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith distill pretraining`."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote, with the teacher's vocabulary."""
    out: Path
    """Folder for the student, its checkpoints and journal."""
    distillation: PretrainingStudentSettings = field(default_factory=PretrainingStudentSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    pretraining: PretrainingSettings = field(
        default_factory=lambda: PretrainingSettings(pairs="none")
    )
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the stopped run in --out from its newest checkpoint. On a CPU the result is that of
    a run that was not stopped; on a GPU, on another processor or in another number of processes it
    differs by rounding."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; --minutes or --steps on the line unsets the other in the recipe."""
    return parse_with_recipe(
        Settings, unset_other(args, "minutes", "steps"), prog, DESCRIPTION, kind="distill"
    )
