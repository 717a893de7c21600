"""Settings for learning to write one text from another, such as a translation.

This module needs no torch, so that help and mistakes in a command are shown at once. `Advanced`
keeps a setting's flag off the first screen of help.
"""

from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.data.columns import TranslationColumns
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.lineage.settings import Preset
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced
from bertsmith.training.settings import OptimSettings, TrainingSettings


@dataclass(frozen=True)
class TranslationOptimSettings(OptimSettings):
    """Optimizer settings, with the defaults of Vaswani et al. 2017, section 5.3."""

    adam_beta2: Advanced[float] = 0.98
    """Adam's beta 2: how much of the mean of earlier squared gradients is kept at each step."""
    adam_epsilon: Advanced[float] = 1e-9
    """Adam's epsilon: added to the divisor, so that near-zero gradients do not make large steps."""


@dataclass(frozen=True)
class TranslationSettings:
    """Settings for learning to write one text from another: texts, model and training."""

    train: Path
    """Table to learn from, with a source and a target in each row: csv, tsv, jsonl, json, parquet
    or xlsx, plain or compressed."""
    eval: Path
    """Table to evaluate on, like --train."""
    tokenizer: Path | None = None
    """Folder of the vocabulary of a new model, which `bertsmith tokenizer train` learned from both
    languages."""
    model: Path | None = None
    """Folder of a model to continue, which keeps its vocabulary."""
    preset: Preset | None = None
    """Size of a new model: each stack has the layers and the width of a BERT of this size. By
    default tiny."""
    max_length: int = 128
    """Maximum length of a source or target in tokens, special ones included."""
    skip_long: bool = False
    """Leave out rows that are longer than --max-length, and count them. By default they are an
    error."""
    dropout: Advanced[float | None] = None
    """Dropout of embeddings and of each layer's outputs in training. By default 0.1, or that of
    --model."""
    label_smoothing: Advanced[float] = 0.1
    """Label smoothing: the share of the target probability that is spread evenly over all tokens,
    the right one included."""
    columns: TranslationColumns = field(default_factory=TranslationColumns)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: TranslationOptimSettings = field(default_factory=TranslationOptimSettings)

    def __post_init__(self) -> None:
        check_upper_limits(self)
        if self.max_length < 2:
            raise SettingError("max_length", self.max_length, "2 or more")
        if not 0 <= self.label_smoothing < 1:
            raise SettingError("label_smoothing", self.label_smoothing, "at least 0 and below 1")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise SettingError("dropout", self.dropout, "at least 0 and below 1")
        if (self.tokenizer is None) == (self.model is None):
            raise ConfigError(
                f"Give either {option('tokenizer')}, for a new model with its vocabulary, or "
                f"{option('model')}, to continue a model."
            )
        if self.model is not None and self.preset is not None:
            raise ConfigError(
                f"{option('preset')}: found {self.preset!r} beside {option('model', self.model)}, "
                "which has its own size. Leave one of them out."
            )
