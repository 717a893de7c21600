"""Settings of `bertsmith pretrain t5`."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.lineage.settings import T5Settings
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class Settings:
    """Train a T5 on your texts.

    The model reads a text in which some spans of tokens are missing, each replaced by a sentinel,
    and learns to write what is missing (span corruption). It learns from the same corpus as a BERT
    of `bertsmith pretrain`, with the same loop. The result is a Hugging Face folder of T5's form,
    which `bertsmith finetune translate` teaches to write one text from another.
    """

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints and its journal."""
    model: T5Settings = field(default_factory=T5Settings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the stopped run in --out from its newest checkpoint. On a CPU the result is that of
    a run that was not stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


parse = partial(parse_settings, Settings)
