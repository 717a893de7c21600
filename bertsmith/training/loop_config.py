"""The resolved settings of a run on a corpus or on text pairs, as the training loop reads them."""

from dataclasses import dataclass, field

from bertsmith.system.compute import FREE
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.settings import OptimSettings


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """A `RunConfig` without a choice of the best weights.

    A resumed run must share all of it but for the fields that are `FREE`.
    """

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
    num_shares: int = field(metadata=FREE)
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
        """None: the last weights are saved, not the best ones."""
        return None
