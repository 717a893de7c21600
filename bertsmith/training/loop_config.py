"""The resolved settings of a run on a corpus or on text pairs, as the training loop reads them.

Resolved settings have a value wherever the user left one open. Those of fine-tuning are in
`finetuning/`.
"""

from dataclasses import dataclass, field

from bertsmith.system.compute import FREE
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.settings import OptimSettings


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """The base of configurations of runs that save their last weights, not the best ones.

    It has the properties of the protocol `RunConfig`, which the training loop reads. When a run is
    resumed, all fields must have the same values, except for those that are `FREE`.
    """

    steps: int | None
    """Length of the run in steps; None if it is given in `minutes`."""
    minutes: float | None
    batch_size: int
    """Rows of a step."""
    micro_batch_size: int = field(metadata=FREE)
    """Rows computed at once. If a run is resumed with another number, results change only by
    rounding, unless the loss compares these rows, as a contrastive loss does. Then the number is in
    `Objective.identity`, which must stay equal."""
    seed: int
    optim: OptimSettings
    precision: Precision
    evaluations: EvaluationPlan
    num_shares: int = field(metadata=FREE)
    """Number of shares into which a step is divided. A share is some of its micro-batches; each
    worker process computes one, or several with `--exact`, where there are always 12. Another
    number changes results only by the rounding of sums."""
    eval_every: int | None = field(metadata=FREE)
    """Interval of evaluations in steps; if None, `evaluations.times` are spread evenly."""
    checkpoint_every: int | None = field(metadata=FREE)
    """Interval of checkpoints in steps; None for one every ten minutes."""
    keep: int = field(metadata=FREE)
    """Number of most recent checkpoints to keep; 0 writes none."""
    notes: tuple[str, ...] = field(default=(), metadata=FREE)
    """Notes for the user: choices made by measuring, and warnings of a short run."""

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, None if self.minutes is None else 60 * self.minutes)

    @property
    def best(self) -> BestSettings | None:
        """None, so that the last weights are saved and not the best ones."""
        return None
