"""The smallest configuration with which the training loop works."""

from dataclasses import dataclass, field

from bertsmith.system.compute import FREE
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.settings import OptimSettings


@dataclass(frozen=True)
class LoopConfig:
    """The fields that the training loop reads, and no others.

    `steps` or `minutes` is set. A resumed run must have the same `steps` and `seed`.
    """

    optim: OptimSettings = field(metadata=FREE)
    evaluations: EvaluationPlan = field(metadata=FREE)
    steps: int | None
    seed: int
    minutes: float | None = field(default=None, metadata=FREE)
    precision: Precision = field(default="fp32", metadata=FREE)
    num_shares: int = field(default=1, metadata=FREE)
    eval_every: int | None = field(default=None, metadata=FREE)
    checkpoint_every: int | None = field(default=None, metadata=FREE)
    keep: int = field(default=2, metadata=FREE)
    best: BestSettings | None = field(default=None, metadata=FREE)
    notes: tuple[str, ...] = field(default=(), metadata=FREE)

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, None if self.minutes is None else 60 * self.minutes)
