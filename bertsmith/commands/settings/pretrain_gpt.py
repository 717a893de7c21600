"""Settings of `bertsmith pretrain gpt`."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.lineage.settings import GptSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class Settings:
    """Train a GPT on your texts.

    The model reads a text from left to right and learns to predict each token from those before it
    (causal language modelling). It learns from the same corpus as a BERT of `bertsmith pretrain`,
    with the same loop. The result is a Hugging Face folder of GPT-2's form for `bertsmith
    generate`.
    """

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints and its journal."""
    model: GptSettings = field(default_factory=GptSettings)
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
