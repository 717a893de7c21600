"""Settings of `bertsmith pretrain lstm`."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.lineage.settings import RecurrentSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class Settings:
    """Train an LSTM on your texts.

    The model reads one token after another, keeps a state of fixed size, and learns to predict the
    next token from it. It learns from the same corpus and with the same loop as a BERT of
    `bertsmith pretrain`, and its bits per character can be compared with those of `bertsmith
    pretrain gpt`. The result is a folder for `bertsmith generate`.
    """

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints and its journal."""
    model: RecurrentSettings = field(default_factory=RecurrentSettings)
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
