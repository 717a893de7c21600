"""Resolve the user's settings for a fine-tuning: decide every value that is left open.

`resolve_finetuning` decides in this order: steps, learning rate, evaluations, the weights to keep.
`run.json` stores the result, which must be the same when the run is resumed.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from bertsmith.errors import ConfigError, option
from bertsmith.model.config import BertConfig
from bertsmith.model.weights import weight_files
from bertsmith.system.compute import FREE
from bertsmith.system.files import sha256_file
from bertsmith.system.matrix_products import Precision
from bertsmith.tasks.example_objective import ExampleObjective
from bertsmith.tasks.settings.finetune import ClsAttention, FinetuneSettings
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import MAX_TIMES, Budget, EvaluationPlan
from bertsmith.training.layerwise import LayerwiseOptim
from bertsmith.training.machine import Machine

EVALUATION_SHARE = 0.1
"""Interval between evaluations, as a share of the run. If an epoch is longer, the interval is an
epoch."""

DEFAULT_EPOCHS = 4
MIN_STEPS = 100
"""Fewest steps by default, since a new head needs some even with few examples. With 16 to 500
sentences, 50, 200 and 400 steps gave no better scores, and 25 much worse ones
(`benchmarks/results/few-labels.md`)."""
MIN_CONTRASTIVE_STEPS = 50
"""Fewest steps by default for training on pairs. With 16 sentences, 100 gave no better scores."""
BASE_LEARNING_RATE = 5e-5
"""The largest learning rate that the paper recommends for its base model (appendix A.3); narrower
models tolerate more."""
BASE_HIDDEN_SIZE = 768
TINY_LEARNING_RATE = 1e-3
"""The smallest learning rate for tiny models. With 3e-4, in proportion to their width, scores were
lower: SST-2 by 4 points, names by 5 and 8, STS-B by 1 and 2
(`benchmarks/results/quality-screening.md`)."""
TINY_HIDDEN_SIZE = 128
"""Largest hidden size of a tiny model."""
RECURRENT_LEARNING_RATE = 1e-3
"""Adam's own default (Kingma & Ba 2015, section 2), for LSTMs and GRUs that are not tiny."""
TINY_RECURRENT_LEARNING_RATE = 3e-3
"""The rate of tiny LSTMs and GRUs. A new LSTM that learned from 2,000 sentences of SST-2 was right
for 67.5 % after 125 steps and at most 72.4 %; with 1e-3 for 50.9 % and 72.0 %, with 1e-2 for 62.6 %
and 71.7 % (one run each)."""

MIN_EXAMPLES = 4
"""Fewest examples of a step for each process; with fewer, another process does not pay."""


@dataclass(frozen=True)
class FinetuneConfig:
    """All settings of a fine-tuning; a resumed run must share them, except those that are `FREE`.

    The training loop reads it by the protocol `RunConfig`, as the settings of a pre-training.
    """

    model: BertConfig
    weights_sha256: str
    """Checksums of the weights that the run begins with; empty if these are random."""
    max_length: int
    """Largest number of tokens in a row."""
    steps: int
    batch_size: int
    num_shares: int = field(metadata=FREE)
    """Number of shares into which the examples of a step are divided; as many processes compute
    them at the same time. It changes results only by the rounding of sums."""
    seed: int
    dropout: float
    optim: LayerwiseOptim
    """Settings of the optimizer, with frozen layers and with smaller rates in lower layers."""
    precision: Precision
    best: BestSettings | None
    """Settings for choosing the best weights. None without eval examples: then the last weights are
    saved."""
    cls_attention: ClsAttention
    from_scratch: bool
    eval_every: int = field(metadata=FREE)
    """Number of steps between evaluations."""

    # Parts of a `RunConfig` for which a fine-tuning has no settings: the numbers of eval rows and
    # evaluations (here all eval examples are scored, every `eval_every` steps), the interval of
    # checkpoints and how many are kept, and notes for the user.
    evaluations: ClassVar = EvaluationPlan(rows=0, times=MAX_TIMES)
    checkpoint_every: ClassVar = None
    keep: ClassVar = 1
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, seconds=None)


def resolve_finetuning(
    settings: FinetuneSettings,
    objective: ExampleObjective,
    folder: Path,
    shape: BertConfig,
    max_length: int,
    cls_attention: ClsAttention,
    machine: Machine,
) -> FinetuneConfig:
    """Decide every setting that the user left open.

    Args:
        objective: the encoded examples and the task.
        folder: the model's folder.
        shape: the config of the model.
        max_length: longest row in tokens.
        cls_attention: whether the queries of the loaded model were reset (cls_query_reset.py).

    Raises:
        ConfigError: a setting that the model or the machine cannot meet.
    """
    machine.check_batch_size(settings.batch_size)
    task = objective.task
    steps_per_epoch = objective.steps_per_epoch
    steps = resolve_steps(settings, steps_per_epoch)
    optim = resolve_optim(settings, shape)
    best = BestSettings(
        # Key of the score in the journal, such as held_out_classify_accuracy.
        f"held_out_{task.name}_{settings.score_key}",
        settings.patience,
        # Without a new head, the weights before the first step may already be the best.
        from_start=task.head is None,
    )
    has_held_out = len(objective.held_out.examples) > 0
    if settings.patience is not None and not has_held_out:
        raise ConfigError(
            f"{option('patience')}: training can only end early by the scores of eval examples, "
            "and there are none. Give some, or leave it out."
        )
    return FinetuneConfig(
        model=shape,
        weights_sha256=sum_weights(settings, folder),
        max_length=max_length,
        steps=steps,
        batch_size=settings.batch_size,
        num_shares=objective.num_shares,
        seed=settings.seed,
        dropout=settings.dropout,
        optim=optim,
        precision=machine.precision,
        best=best if has_held_out else None,
        cls_attention=cls_attention,
        from_scratch=settings.begins_at_random,
        eval_every=max(steps_per_epoch, round(steps * EVALUATION_SHARE)),
    )


def resolve_optim(settings: FinetuneSettings, shape: BertConfig) -> LayerwiseOptim:
    """Build the optimizer's complete settings for a model of this shape."""
    return LayerwiseOptim(
        learning_rate=settings.learning_rate
        or default_learning_rate(shape.hidden_size, is_recurrent=shape.is_recurrent),
        weight_decay=settings.weight_decay,
        warmup_fraction=settings.warmup_fraction,
        num_layers=shape.num_layers,
        shared_parts=shape.shared_parts,
        layer_decay=settings.layer_decay,
        freeze_layers=settings.freeze_layers,
        freeze_embeddings=settings.freeze_embeddings,
    )


def sum_weights(settings: FinetuneSettings, folder: Path) -> str:
    """Return the checksums of the folder's weights; empty if the run does not begin with them."""
    return " ".join(map(sha256_file, () if settings.begins_at_random else weight_files(folder)))


def resolve_steps(settings: FinetuneSettings, steps_per_epoch: int) -> int:
    """Return the number of steps of the run."""
    if settings.steps is not None:
        return settings.steps
    if settings.epochs is not None:
        return max(1, round(settings.epochs * steps_per_epoch))
    return max(DEFAULT_EPOCHS * steps_per_epoch, MIN_STEPS)


def resolve_contrastive(settings: FinetuneSettings, num_examples: int) -> FinetuneSettings:
    """Decide the steps of training on pairs, and its batch size.

    The texts of a batch are compared with each other. So the examples are divided evenly among the
    steps of an epoch. If a single example, which is no pair, remained for the last step, the batch
    size is lowered, but not below 2.

    Raises:
        ConfigError: there are fewer than two examples.
    """
    if num_examples < 2:
        raise ConfigError(
            f"{option('head', 'contrastive')} compares texts with each other, and {num_examples} "
            f"is given. Give two or more, or choose {option('head', 'linear')}."
        )
    steps_per_epoch = math.ceil(num_examples / settings.batch_size)
    batch_size = math.ceil(num_examples / steps_per_epoch)
    while batch_size > 2 and num_examples % batch_size == 1:
        batch_size -= 1
    steps = settings.steps
    if steps is None and settings.epochs is None:
        steps_per_epoch = math.ceil(num_examples / batch_size)
        steps = max(DEFAULT_EPOCHS * steps_per_epoch, MIN_CONTRASTIVE_STEPS)
    return replace(settings, batch_size=batch_size, steps=steps)


def default_learning_rate(hidden_size: int, *, is_recurrent: bool = False) -> float:
    """Return the learning rate for a model of this width.

    >>> default_learning_rate(384), default_learning_rate(128)
    (0.0001, 0.001)
    """
    if is_recurrent:
        is_tiny = hidden_size <= TINY_HIDDEN_SIZE
        return TINY_RECURRENT_LEARNING_RATE if is_tiny else RECURRENT_LEARNING_RATE
    rate = BASE_LEARNING_RATE * BASE_HIDDEN_SIZE / hidden_size
    return max(rate, TINY_LEARNING_RATE) if hidden_size <= TINY_HIDDEN_SIZE else rate


def count_shares(batch_size: int, machine: Machine) -> int:
    """Return the number of shares into which a step is divided."""
    return max(1, min(machine.num_shares, batch_size // MIN_EXAMPLES))
