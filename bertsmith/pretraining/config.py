"""The resolved configuration of a pre-training run, in which nothing is left to decide.

`resolve.py` makes it from the user's settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.model.config import BertConfig
from bertsmith.model.pretraining_catalog import ObjectiveName
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.compute import FREE
from bertsmith.training.loop_config import LoopConfig


@dataclass(frozen=True)
class SourceFacts:
    """Facts of the model that a run continues."""

    name: str
    """Folder or hub name, as the user gave it."""
    weights: Mapping[str, str]
    """SHA-256 of each weight file."""
    config: BertConfig
    objective: ObjectiveName
    """The objective that the run continues if the user names none."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(LoopConfig):
    """All settings of a run. Only those that are `FREE` may change when the run is resumed."""

    corpus: Path = field(metadata=FREE)  # compared by its content, not by its path
    source: str
    """Model that the run continues; empty for a new one."""
    source_weights: Mapping[str, str]
    """SHA-256 of each weight file of that model; empty for a new one."""
    family: str
    """Name of the model's family, such as "bert"."""
    preset: str
    """Size of a new model; empty for a continued one."""
    model: BertConfig
    position_initializer: str
    """Initialization of a new model's positions; empty for a continued one, and for a model without
    position embeddings, such as a ModernBERT."""
    word_initializer: str
    """Initialization of a new model's word embeddings; empty for a continued one."""
    pretraining: PretrainingSettings
    """Settings of rows, masking, pairs and objective, all of them decided."""
