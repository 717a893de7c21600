"""Settings of a pre-training run: its length, the rows of a step, evaluations and checkpoints.

The learning rate is in `optim.py`, its default in `pretraining/resolve.py`. Settings of fine-tuning
are in `tasks/settings.py`.
"""

from dataclasses import dataclass

from bertsmith.errors import ConfigError
from bertsmith.system.bounds import check_all_largest, check_seed
from bertsmith.system.compute import Advanced, Compute


@dataclass(frozen=True)
class TrainingSettings(Compute):
    """Length of a run, size of its steps, evaluations and checkpoints."""

    steps: int | None = None
    """Length of the run in steps (updates of the weights). Give this or --minutes."""
    minutes: float | None = None
    """Length of the training in minutes, evaluations included. Preparing it comes on top."""
    batch_size: int = 64
    """Batch size: rows of text per step."""
    micro_batch_size: Advanced[int | None] = None
    """Micro-batch size: rows computed at once. Fewer rows need less memory; the gradient is the
    same but for rounding (on a GPU, apart from dropout), except with --pairs contrastive, which
    compares the rows of a micro-batch. By default, on a CPU as many as have 4,096 tokens for each
    core and keep at most half a GB for the backward pass; elsewhere the whole batch."""
    seed: int = 0
    """Random seed of the initial weights, the order of the text, the masks and dropout."""
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
                f"--steps ({self.steps}) and --minutes ({self.minutes}) exclude each other. Give "
                "one of them."
            )
        super().__post_init__()
        for name in ("steps", "batch_size", "micro_batch_size", "eval_every", "eval_rows",
                     "checkpoint_every"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"training.{name}: found {value}; allowed is 1 or more.")
        check_all_largest(self, "training.")
        if self.minutes is not None and not self.minutes > 0:
            raise ConfigError(
                f"training.minutes: found {self.minutes}; allowed is a number above 0."
            )
        check_seed("training.seed", self.seed)
        if self.keep < 0:
            raise ConfigError(f"training.keep: found {self.keep}; allowed is 0 or more.")

    def check_length(self) -> None:
        """Raise ConfigError where neither steps nor minutes are given."""
        if self.steps is None and self.minutes is None:
            raise ConfigError("How long should it train? Pass --minutes 15 or --steps 1000.")
