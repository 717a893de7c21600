"""Settings that `pretrain gpt`, `pretrain lstm`, `pretrain elmo` and `pretrain t5` share."""

from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.lineage.settings import SystemSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class PretrainSystem:
    """Settings that these four commands share; a subclass has the settings of its model."""

    corpus: Path
    """Folder that `bertsmith corpus build` wrote."""
    out: Path
    """Folder for the model, its checkpoints and its journal."""
    model: SystemSettings = field(default_factory=SystemSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    resume: bool = False
    """Continue the stopped run in --out from its newest checkpoint. On a CPU the result is the same
    as without the stop."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""
