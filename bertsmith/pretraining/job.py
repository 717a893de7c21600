"""The settings of a pre-training run as the user gives them.

`resolve_pretraining` decides the settings that the user left open.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import OptimSettings, TrainingSettings

OF_THE_COMMAND = ("out", "json", "page", "resume", "overwrite")
"""Keys of a recipe that are ignored: they are for one call of the command and change no result."""


@dataclass(frozen=True)
class PretrainJob:
    """The settings of a run, except for its output folder."""

    corpus: Path
    model: ModelSettings = field(default_factory=ModelSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    from_: Path | None = None
    """Model to continue, a folder or "org/name" on the hub; None for a new one."""

    def with_training(self, **changes: Any) -> Self:
        return replace(self, training=replace(self.training, **changes))

    def with_pretraining(self, **changes: Any) -> Self:
        return replace(self, pretraining=replace(self.pretraining, **changes))
