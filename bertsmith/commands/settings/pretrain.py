"""Options of `bertsmith pretrain`: each field is one, and its docstring is the help."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.flags import parse_with_recipe, unset_other
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings

DESCRIPTION = """Pre-train a BERT on your texts.

The model reads rows of your text in which some tokens are hidden, and learns to predict them
(masked LM). Each row has two segments, and the model also learns to tell whether the second follows
the first in the text (next sentence prediction); --pairs chooses another task, or none. No labels
are needed. The result is a Hugging Face folder for `bertsmith fill` and `bertsmith finetune`.

With --from, the command continues a model that was pre-trained on other texts. It keeps the model's
vocabulary; `bertsmith tokenizer extend` adds tokens to it.

With --recipe, the command uses tested settings: quarter-hour learns the most in 15 minutes on a
laptop; hour and night are for more time."""


@dataclass(frozen=True)
class Settings:
    """The command line of `bertsmith pretrain`."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints and its journal."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Model to continue from: a folder, or "org/name" on the Hugging Face hub. The corpus must be
    built with its tokenizer or an extension of it."""
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the stopped run in --out from its newest checkpoint. On a CPU the result is that of
    a run that was not stopped; on a GPU, on another processor or in another number of processes it
    differs by rounding."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    page: Path | None = None
    """HTML page with curves and settings, updated during the run. A browser reloads it every ten
    seconds."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Parse recipe and flags; --minutes or --steps on the line unsets the other in the recipe."""
    return parse_with_recipe(
        Settings, unset_other(args, "minutes", "steps"), prog, DESCRIPTION, kind="pretrain"
    )
