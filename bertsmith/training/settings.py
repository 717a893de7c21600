"""Settings of a training run: its length, the rows of a step, evaluations, and the optimizer.

The default of the learning rate is in `pretraining/resolve.py`. Settings of fine-tuning are in
`tasks/settings/`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_seed, check_upper_limits
from bertsmith.system.compute import Advanced, Compute

Optimizer = Literal["adamw", "muon"]
Schedule = Literal["linear", "cosine", "constant", "wsd", "noam"]
MIN_EPSILON = 1e-30
"""Least epsilon of Adam. In fp32 one below 1e-45 is 0: weights without a gradient, such as those of
tokens that have not occurred yet, would be divided by it and become NaN."""


@dataclass(frozen=True)
class TrainingSettings(Compute):
    """Length of a run, size of its steps, evaluations and checkpoints."""

    steps: int | None = None
    """Length of the run in steps (updates of the weights). Give this or --minutes."""
    minutes: float | None = None
    """Length of the training in minutes. Evaluations are included; preparing the run is not."""
    batch_size: int = 64
    """Batch size: rows of text per step."""
    micro_batch_size: Advanced[int | None] = None
    """Micro-batch size: rows computed at once. Fewer rows need less memory; gradients differ only
    by rounding (on a GPU also by dropout), except with --pairs contrastive, which compares the rows
    of a micro-batch. By default, on a CPU as many as have 4,096 tokens per core, or fewer if these
    would keep over half a GB for the backward pass; elsewhere the whole batch."""
    seed: int = 0
    """Random seed. It decides the initial weights, the order of the text, masks and dropout."""
    eval_every: Advanced[int | None] = None
    """Interval of evaluations on held-out text, in steps. By default ten evaluations in a run."""
    eval_rows: Advanced[int | None] = None
    """Number of held-out rows in each evaluation. By default 512; in a short run fewer rows and
    fewer evaluations, which take at most a twentieth of its time."""
    checkpoint_every: Advanced[int | None] = None
    """Interval of checkpoints, in steps. By default one every ten minutes."""
    keep: Advanced[int] = 2
    """Number of most recent checkpoints to keep; 0 saves none."""

    def __post_init__(self) -> None:
        if self.steps is not None and self.minutes is not None:
            raise ConfigError(
                f"{option('steps')} ({self.steps}) and {option('minutes')} ({self.minutes}) "
                "exclude each other. Give one of them."
            )
        super().__post_init__()
        for name in ("steps", "batch_size", "micro_batch_size", "eval_every", "eval_rows",
                     "checkpoint_every"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"training.{name}", value, "1 or more")
        check_upper_limits(self, "training.")
        if self.minutes is not None and not self.minutes > 0:
            raise SettingError("training.minutes", self.minutes, "a number above 0")
        check_seed("training.seed", self.seed)
        if self.keep < 0:
            raise SettingError("training.keep", self.keep, "0 or more")
        if self.keep == 0 and self.checkpoint_every is not None:
            raise ConfigError(
                f"{option('training.checkpoint_every')}: found {self.checkpoint_every} with "
                f"{option('keep', 0)}, which saves no checkpoints. Leave out one of the two."
            )

    def check_length(self) -> None:
        """Check that the length of the run is set.

        Raises:
            ConfigError: neither steps nor minutes are set.
        """
        if self.steps is None and self.minutes is None:
            raise ConfigError(
                f"How long should it train? Pass {option('minutes', 15)} or "
                f"{option('steps', 1000)}."
            )


@dataclass(frozen=True)
class OptimSettings:
    """Settings of the optimizer and its schedule."""

    optimizer: Advanced[Optimizer] = "adamw"
    """Optimizer: AdamW, or Muon for the matrices inside layers and AdamW for the rest."""
    learning_rate: float | None = None  # LEARNING_RATES in pretraining/resolve.py
    """Peak learning rate: about the largest change of a weight in a step. By default it depends on
    the model's size."""
    weight_decay: Advanced[float] = 0.01
    """Weight decay: how strongly matrices are pulled towards zero; biases and LayerNorm never are.
    """
    adam_beta1: Advanced[float] = 0.9
    """Adam's beta 1: how much of the mean of earlier gradients is kept at each step."""
    adam_beta2: Advanced[float] = 0.999
    """Adam's beta 2: how much of the mean of earlier squared gradients is kept at each step."""
    adam_epsilon: Advanced[float] = 1e-6
    """Adam's epsilon: added to the divisor, so that near-zero gradients do not make large steps."""
    warmup_fraction: Advanced[float] = 0.1
    """Warm-up: the share of the run in which the learning rate rises from zero to its peak."""
    schedule: Advanced[Schedule] = "linear"
    """Schedule of the learning rate after warm-up: linear or cosine decay to zero, constant, or wsd
    (warm-up, stable, decay): constant, then a fast decay to zero at the end; or noam, which falls
    with the inverse square root of the steps (Vaswani et al. 2017)."""
    decay_fraction: Advanced[float] = 0.2
    """Decay of schedule wsd: the share of the run, at its end, in which the learning rate falls."""
    max_grad_norm: Advanced[float] = 1.0
    """Gradient clipping: gradients are scaled down to at most this norm; 0 turns it off."""

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            _check("learning_rate", self.learning_rate, self.learning_rate > 0, "above 0")
        _check("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
        for name in ("adam_beta1", "adam_beta2"):
            value = getattr(self, name)
            _check(name, value, 0 <= value < 1, "at least 0 and below 1")
        _check("adam_epsilon", self.adam_epsilon, self.adam_epsilon >= MIN_EPSILON,
               f"of {MIN_EPSILON:g} or more")  # fmt: skip
        _check("warmup_fraction", self.warmup_fraction, 0 <= self.warmup_fraction < 1,
               "at least 0 and below 1")  # fmt: skip
        if self.schedule not in get_args(Schedule):
            raise SettingError("optim.schedule", self.schedule, get_args(Schedule))
        if self.schedule == "wsd":
            # Compared as a sum, since in floating point 1 - 0.9 is less than 0.1.
            _check("decay_fraction", self.decay_fraction,
                   self.decay_fraction > 0 and self.warmup_fraction + self.decay_fraction <= 1,
                   f"above 0 and at most 1 minus {option('warmup_fraction')}")  # fmt: skip
        elif self.decay_fraction != OptimSettings.decay_fraction:
            raise ConfigError(
                f"{option('decay_fraction')}: found {self.decay_fraction:g}, which has no effect "
                f"on the schedule {self.schedule}. Leave it out, or give "
                f"{option('schedule', 'wsd')}."
            )
        if self.schedule == "noam":
            _check("warmup_fraction", self.warmup_fraction, self.warmup_fraction > 0,
                   "above 0 with the schedule noam")  # fmt: skip
        _check("max_grad_norm", self.max_grad_norm, self.max_grad_norm >= 0, "0 or more")

    def extra_rules(self) -> Sequence[Any]:
        """Return the rules (`UpdateRule`) of a subclass; they come before the optimizer's."""
        return ()

    @property
    def peak_rate(self) -> float:
        """The learning rate; resolved settings always have one."""
        assert self.learning_rate is not None
        return self.learning_rate

    def rate_scale(self, name: str) -> float:
        """Return a parameter's factor of the learning rate; 0 if frozen."""
        return 1.0


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds or not math.isfinite(value):
        raise SettingError(f"optim.{name}", value, f"a number {allowed}")
