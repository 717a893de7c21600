"""A pre-training run with nothing left to decide; `resolve.py` makes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.model.config import BertConfig
from bertsmith.pretraining.settings import ObjectiveName, PretrainingSettings
from bertsmith.system.compute import FREE
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.settings import OptimSettings


@dataclass(frozen=True)
class SourceFacts:
    """Facts of the model that a run continues."""

    name: str
    """Folder or hub name, as the user gave it."""
    weights: Mapping[str, str]
    """SHA-256 of each weight file."""
    config: BertConfig
    objective: ObjectiveName


@dataclass(frozen=True)
class PretrainConfig:
    """All settings of a run, which a resumed run must share but for those that are `FREE`.

    The loop reads it as a `RunConfig`.
    """

    corpus: Path = field(metadata=FREE)
    source: str
    """Model that the run continues; empty for a new one."""
    source_weights: Mapping[str, str]
    family: str
    preset: str
    """Size of a new model; empty for a continued one."""
    model: BertConfig
    position_initializer: str
    """Initialization of a new model's positions; empty for a continued one."""
    word_initializer: str
    """Initialization of a new model's word embeddings; empty for a continued one."""
    pretraining: PretrainingSettings
    steps: int | None
    """Length of the run in steps; without it, it is in `minutes`."""
    minutes: float | None
    batch_size: int
    micro_batch_size: int = field(metadata=FREE)
    """Rows computed at once. If a loss compares them, their number is in the objective's
    identity."""
    seed: int
    optim: OptimSettings
    precision: Precision
    evaluations: EvaluationPlan
    num_processes: int = field(metadata=FREE)
    eval_every: int | None = field(metadata=FREE)
    checkpoint_every: int | None = field(metadata=FREE)
    keep: int = field(metadata=FREE)
    notes: tuple[str, ...] = field(default=(), metadata=FREE)
    """Choices made by measuring, and warnings of a short run."""

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, None if self.minutes is None else 60 * self.minutes)

    @property
    def best(self) -> BestSettings | None:
        """None: pre-training saves the last weights, not the best ones."""
        return None
