"""Settings of every fine-tuning; tasks add their own by inheritance.

The docstrings of the fields are the help texts of `bertsmith finetune`. `Advanced` marks a setting
that only --help-all shows. The metadata `FREE` marks a setting that may have another value when a
run is resumed; all others must be equal.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windowing import LongTexts, Windowing, check_stride
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_choice, check_seed, check_upper_limits
from bertsmith.system.compute import FREE, Advanced, Compute
from bertsmith.training.settings import OptimSettings

ClsAttention = Literal["auto", "keep", "reset"]

NOT_GIVEN = Path()
"""Default of a path that some runs need not name, such as `eval` in a run with folds. It is a path,
so that code that needs the path has no case for None; run.json shows it as ".". It equals the path
of the current folder. So where the user may name the current folder, test with `is NOT_GIVEN`."""
Sources = tuple[ExampleSource, ExampleSource | None]
"""Sources of training and of eval examples: files, or rows in memory. The second source is None if
there are no eval examples, or if they are taken from the training examples."""


@dataclass(frozen=True)
class FinetuneSettings(Compute):
    """Settings of `finetune` that all tasks share.

    A task's own settings define `columns`: the options for reading its files.
    """

    model: Path
    """Folder of the pre-trained model."""
    train: Path
    """Labelled examples to train on: .csv, .tsv or .jsonl, also as .gz, .xz or .zst."""
    out: Path = field(metadata=FREE)
    """Folder to write the fine-tuned model to."""
    eval: Path = NOT_GIVEN
    """Labelled examples to score by. They only score the model: keep them out of
    --train."""
    seeds: int | None = None
    """Number of runs with different seeds, from --seed on. The mean and the standard deviation of
    the scores are reported, and the best model is kept."""
    folds: int | None = None
    """Number of parts of --train for cross-validation. They have equal shares of each label, and
    each is held out once. The mean and the standard deviation of the scores are reported."""
    limit: int | None = None
    """Use only the first N examples of --train. All by default."""
    sample: Advanced[int | None] = None
    """Number of rows of --train to use, drawn at random; classes keep their shares. All by default.
    """
    eval_limit: Advanced[int | None] = None
    """Use only the first N examples of --eval. All by default."""
    max_length: int | None = None
    """Maximum sequence length in tokens. Less saves time and memory. By default the model's
    maximum."""
    epochs: float | None = None
    """Number of passes over the examples. By default 4, and more with few examples."""
    steps: int | None = None
    """Number of updates of the weights, instead of --epochs."""
    batch_size: int = 16
    """Batch size: examples per update."""
    learning_rate: float | None = None  # see finetuning/resolve.py
    """Peak learning rate: how far an update moves the weights. By default 5e-5 for a hidden size of
    768 (base), more for smaller sizes in proportion, and at least 1e-3 up to 128 (tiny). For an
    LSTM or GRU 1e-3, and 3e-3 up to 128."""
    weight_decay: Advanced[float] = OptimSettings.weight_decay
    """Weight decay: how strongly weights are pulled towards zero; biases and LayerNorm never are.
    """
    warmup_fraction: Advanced[float] = OptimSettings.warmup_fraction
    """Warm-up: the fraction of the updates in which the learning rate rises from zero."""
    dropout: Advanced[float] = 0.1
    """Dropout: the fraction of activations that is zeroed at random in training, so that the model
    does not memorize the examples. Replaces the value of pre-training."""
    layer_decay: Advanced[float] = 1.0
    """Layer-wise learning rate decay: the ratio of each layer's rate to that of the layer above it.
    1 treats all layers alike; 0.8 to 0.95 are usual with few examples."""
    freeze_layers: Advanced[int] = 0
    """Number of layers, from the bottom, that are excluded from training, together with the
    embeddings; saves time."""
    freeze_embeddings: Advanced[bool] = False
    """Exclude the embeddings from training."""
    metric: str = ""
    """Score by which the best weights are chosen."""
    patience: Advanced[int | None] = None
    """Early stopping: training ends after this many evaluations in a row that bring neither a
    better score nor an equal score with a lower loss. By default it does not end early."""
    cls_attention: Advanced[ClsAttention] = "auto"
    """Attention of [CLS] in the last layer at the start, for heads that read [CLS]. `keep`: as
    pre-trained. `reset`: uniform over all tokens, by setting the layer's queries to zero. `auto`:
    reset if `bertsmith pretrain` trained the model from random weights, and either used --pairs
    none or contrastive, or learned next to nothing about pairs of segments (as in a run of
    minutes)."""
    from_scratch: Advanced[bool] = False
    """Start from random weights instead of the model's own, as a baseline without pre-training."""
    seed: int = 0
    """Random seed. It decides the new head, the order of the examples and dropout."""
    resume: bool = field(default=False, metadata=FREE)
    """Continue the stopped run in --out from its checkpoint. On a CPU the result is that of a run
    that was not stopped; on a GPU, on another processor or in another number of processes it
    differs by rounding."""
    overwrite: bool = field(default=False, metadata=FREE)
    """Replace the contents of --out."""

    columns: Any = None
    """Options for reading the files."""

    def __post_init__(self) -> None:
        """Check the settings, each alone and with the others.

        Raises:
            ConfigError: two options exclude each other.
            SettingError: a value is not allowed.
        """
        super().__post_init__()
        if self.epochs is not None and self.steps is not None:
            raise ConfigError(
                f"{option('epochs')} and {option('steps')} exclude each other. Give one of them."
            )
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise SettingError("learning_rate", self.learning_rate, "a number above 0")
        if not 0 <= self.dropout < 1:
            raise SettingError("dropout", self.dropout, "0 or more, below 1")
        check_seed("seed", self.seed)
        check_choice(option("cls_attention"), self.cls_attention, get_args(ClsAttention))
        if self.from_scratch and self.cls_attention == "reset":
            raise ConfigError(
                f"{option('from_scratch', True)} and {option('cls_attention', 'reset')} exclude "
                "each other: random weights are nothing to reset. Give one of them."
            )
        check_upper_limits(self)  # those of `LARGEST` in system/bounds.py, such as that of `steps`
        self._check_repeats()
        self.check_positive("epochs")
        self.check_positive(
            "limit", "sample", "eval_limit", "steps", "batch_size", "patience", allowed="1 or more"
        )

    def _check_repeats(self) -> None:
        """Check the options of a series of runs, `seeds` and `folds`."""
        if self.seeds is not None and self.folds is not None:
            raise ConfigError(
                f"{option('seeds')} and {option('folds')} exclude each other. Give one of them."
            )
        for name in ("seeds", "folds"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise SettingError(name, value, "2 or more")
        if self.folds is not None and self.eval not in (NOT_GIVEN, self.train):
            raise ConfigError(
                f"{option('eval')} and {option('folds')} exclude each other: folds are taken from "
                f"{option('train')}. Give one of them."
            )
        if self.folds is not None and self.eval_limit is not None:
            raise ConfigError(
                f"{option('eval_limit')} and {option('folds')} exclude each other: folds are taken "
                f"from {option('train')}. Give {option('limit')} for fewer rows."
            )

    @property
    def needs_held_out(self) -> bool:
        """Whether eval examples choose the best weights."""
        return True

    def check_held_out(self) -> None:
        """Refuse a run without eval examples, if it needs some.

        A recipe (a TOML file of settings) may leave --eval to the command line, so `__post_init__`
        does not check it.

        Raises:
            ConfigError: there are neither eval examples nor folds.
        """
        if self.needs_held_out and self.folds is None and self.eval == NOT_GIVEN:
            raise ConfigError(
                f"{option('eval')}: not given. Name labelled examples to score by, or pass "
                f"{option('folds', 5)} to take them from {option('train')}."
            )

    def check_positive(self, *names: str, allowed: str = "a number above 0") -> None:
        """Check that settings are None or finite numbers above 0.

        Args:
            allowed: the allowed values in the message; give "1 or more" for whole numbers.

        Raises:
            SettingError: a setting is not allowed.
        """
        for name in names:
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise SettingError(name, value, allowed)

    @property
    def sources(self) -> Sources:
        """The files of training and of eval examples."""
        return self.train, self.eval

    @property
    def can_resume(self) -> bool:
        """Whether a stopped run can be resumed."""
        return True

    @property
    def begins_at_random(self) -> bool:
        """Whether no weight of `model` is used."""
        return self.from_scratch

    @property
    def is_series(self) -> bool:
        """Whether the settings define several runs."""
        return self.seeds is not None or self.folds is not None

    def for_one_run(self) -> Self:
        """Return the settings of a single run of a series."""
        return replace(self, seeds=None, folds=None, resume=False)

    @property
    def score_key(self) -> str:
        """The key of `metric` among the eval scores."""
        return self.metric


@dataclass(frozen=True)
class WindowSettings(FinetuneSettings):
    """Settings of a task that divides long texts into windows, overlapping parts."""

    long_texts: Advanced[LongTexts] = "window"
    """Treatment of texts longer than --max-length: window reads all of them in overlapping windows,
    cut drops the end. Either way they are counted."""
    stride: Advanced[int | None] = None
    """Overlap of neighbouring windows, in tokens; by default a quarter of --max-length."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stride(self.long_texts, self.stride)

    @property
    def windowing(self) -> Windowing:
        """The treatment of long texts, with defaults for what is left open."""
        return Windowing.of_settings({"long_texts": self.long_texts, "stride": self.stride})
