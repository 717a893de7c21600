"""What every fine-tuning is asked for; a task adds its own settings by inheriting."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from bertsmith.bounds import check_all_largest
from bertsmith.data.windows import LongTexts, Windowing
from bertsmith.errors import ConfigError, check_choice, check_seed

ClsAttention = Literal["auto", "keep", "reset"]

NOT_GIVEN = Path()
UNASKED: Mapping[str, Any] = {"cls_attention": "keep"}
"""What runs did that are older than a setting, which they do not tell."""
DEFAULT_EPOCHS = 4
MIN_STEPS = 100
"""Steps that a new head needs at least, however few the examples. With 16 to 500 sentences 50, 200
and 400 do no better, and 25 much worse (`benchmarks/results/few-labels.md`)."""
BASE_LEARNING_RATE = 5e-5
BASE_HIDDEN_SIZE = 768
"""The rate the paper recommends for its base model (appendix A.3); narrower ones bear more."""


@dataclass(frozen=True)
class FinetuneSettings:
    """What to learn from, how long, and where to.

    A task's own settings have a field `columns` beside these: how its files are read.
    """

    model: Path
    """Folder of the pre-trained model to start from."""
    train: Path
    """Labelled examples to learn from: .csv, .tsv or .jsonl, also as .gz, .xz or .zst."""
    out: Path
    """Folder to write the fine-tuned model to."""
    eval: Path = NOT_GIVEN
    """Labelled examples to score by. They are never learnt from, and should not be among
    --train."""
    seeds: int | None = None
    """Do it so many times, with as many seeds from --seed on: tells the mean of the scores and
    their standard deviation, and keeps the best model."""
    folds: int | None = None
    """Cross-validate: divide --train into so many parts with equal shares of each label, hold out
    each of them once, and tell the mean of the scores and their standard deviation."""
    limit: int | None = None
    """Take only the first so many examples of --train."""
    eval_limit: int | None = None
    """Take only the first so many examples of --eval."""
    max_length: int | None = None
    """Read texts in this many tokens at most. As many as the model reads, where not given; fewer
    save time and memory."""
    epochs: float | None = None
    """How often each example is seen. 4 where not given, and more with few examples."""
    steps: int | None = None
    """How many updates of the weights, instead of --epochs."""
    batch_size: int = 16
    """Examples per update."""
    learning_rate: float | None = None
    """How far an update moves the weights. Chosen by the model's width where not given: 5e-5 for
    a base model (768 wide), in proportion more for narrower ones."""
    weight_decay: float = 0.01
    """How strongly weights are pulled towards zero; biases and LayerNorm never are."""
    warmup_fraction: float = 0.1
    """The share of the updates in which the learning rate rises from zero."""
    dropout: float = 0.1
    """The share of the model's activations that is left out at random while it learns, so that it
    does not learn the examples by heart. Counts whatever the model was pre-trained with."""
    layer_decay: float = 1.0
    """Let lower layers learn more slowly: each layer's rate is this share of the rate of the layer
    above it. 1 treats all alike; 0.8 to 0.95 are usual with few examples."""
    freeze_layers: int = 0
    """Leave the embeddings and so many layers from the bottom as they are; it also saves time."""
    freeze_embeddings: bool = False
    """Leave the embeddings as they are."""
    metric: str = ""
    """The score by which the best weights are chosen."""
    patience: int | None = None
    """Stop early, after this many evaluations without a better score, or as good a one with a lower
    loss."""
    cls_attention: ClsAttention = "auto"
    """Where a head judges whole texts by [CLS]: what [CLS] looks at in the last layer as learning
    begins. `keep`: what pre-training taught it. `reset`: all tokens alike, as the layer's queries
    begin at zero. `auto`: reset if `bertsmith pretrain` made the model from random weights and
    taught it hardly anything of pairs of segments, as happens in runs of some minutes, or nothing,
    as with --pairs none."""
    from_scratch: bool = False
    """Begin with random weights instead of the model's own: the score shows what you would have
    without pre-training."""
    seed: int = 0
    """Decides everything random: the new head, the order of the examples, dropout."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of the computation: fp32, bf16, or auto for this machine's fastest."""
    threads: int | None = None
    """Processor threads; as many as there are cores where not given."""
    resume: bool = False
    """Continue the stopped run in --out from its checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace what is in --out."""

    columns: Any = None
    """How the files are read."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        if self.epochs is not None and self.steps is not None:
            raise ConfigError("--epochs and --steps exclude each other. Give one of them.")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"--learning-rate: found {self.learning_rate}; allowed is above 0.")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"--dropout: found {self.dropout}; allowed is 0 or more, below 1.")
        check_seed("--seed", self.seed)
        check_choice("--cls-attention", self.cls_attention, get_args(ClsAttention))
        if self.from_scratch and self.cls_attention == "reset":
            raise ConfigError(
                "--from-scratch and --cls-attention reset exclude each other: random weights are "
                "nothing to reset. Give one of them."
            )
        check_all_largest(self, "--")
        self._check_repeats()
        self.check_positive(
            "limit", "eval_limit", "epochs", "steps", "batch_size", "patience", "threads"
        )

    def _check_repeats(self) -> None:
        if self.seeds is not None and self.folds is not None:
            raise ConfigError("--seeds and --folds exclude each other. Give one of them.")
        for name in ("seeds", "folds"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise ConfigError(f"--{name}: found {value}; allowed is 2 or more.")
        if self.folds is not None and self.eval not in (NOT_GIVEN, self.train):
            raise ConfigError(
                "--eval and --folds exclude each other: folds are taken from --train. Give one."
            )

    def check_held_out(self) -> None:
        """Refuse a run that nothing is held out from; a recipe may leave that to the command line,
        so it is not asked of all settings."""
        if self.folds is None and self.eval == NOT_GIVEN:
            raise ConfigError(
                "--eval: not given. Name labelled examples to score by, or pass --folds 5 to take "
                "them from --train."
            )

    def check_positive(self, *names: str) -> None:
        """Refuse settings that are given and not a number above 0."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                flag = "--" + name.replace("_", "-")
                raise ConfigError(f"{flag}: found {value}; allowed is a number above 0.")

    @property
    def is_series(self) -> bool:
        """Whether several runs are asked for."""
        return self.seeds is not None or self.folds is not None

    @property
    def figure(self) -> str:
        """Which of the evaluation's figures `metric` stands for."""
        return self.metric

    def num_steps(self, steps_per_epoch: int) -> int:
        """How many updates the run has."""
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            return max(1, round(self.epochs * steps_per_epoch))
        return max(DEFAULT_EPOCHS * steps_per_epoch, MIN_STEPS)

    def rate(self, hidden_size: int) -> float:
        """The learning rate for a model of this width."""
        if self.learning_rate is not None:
            return self.learning_rate
        return BASE_LEARNING_RATE * BASE_HIDDEN_SIZE / hidden_size


@dataclass(frozen=True)
class WindowSettings(FinetuneSettings):
    """Settings of a task that reads long texts in windows."""

    long_texts: LongTexts = "window"
    """What becomes of texts longer than --max-length: all of them is read, in windows that
    overlap, or the end is cut off. Either way they are counted."""
    stride: int | None = None
    """How many tokens neighbouring windows share; a quarter of --max-length where not given."""

    @property
    def windowing(self) -> Windowing:
        """Both in one."""
        return Windowing(self.long_texts, self.stride)
