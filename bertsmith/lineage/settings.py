"""Settings for training another system than BERT, such as a GPT.

This module needs no torch, so that help and mistakes in a command are shown at once. `Advanced`
keeps a setting's flag off the first screen of help.
"""

from dataclasses import dataclass
from typing import Any, Literal

from bertsmith.errors import SettingError, option
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced

MIN_LENGTH = 8
"""Smallest maximum length of a row in tokens, special ones included."""

Preset = Literal["tiny", "mini", "small", "medium", "base"]


@dataclass(frozen=True)
class SystemSettings:
    """Size of the model and length of its rows, the same for all systems."""

    preset: Preset = "mini"
    """Model size: layers and width are those of a BERT of this size."""
    max_length: int = 128
    """Maximum row length in tokens, special ones included. Shorter rows train faster."""
    dropout: Advanced[float] = 0.1
    """Dropout of embeddings, attention weights and each layer's outputs in training."""

    def __post_init__(self) -> None:
        check_upper_limits(self, table="model.")  # messages name a setting as model.max_length
        if self.max_length < MIN_LENGTH:
            raise SettingError("model.max_length", self.max_length, f"{MIN_LENGTH} or more")
        if not 0 <= self.dropout < 1:
            raise SettingError("model.dropout", self.dropout, "at least 0 and below 1")

    @property
    def longest(self) -> int:
        """The length of the longest text that the model can read, in tokens."""
        return self.max_length


@dataclass(frozen=True)
class RecurrentSettings(SystemSettings):
    """Settings of an LSTM or GRU, whose positions have no limit."""

    cell: Literal["lstm", "gru"] = "lstm"
    """Kind of the recurrent layers: lstm, or gru, which has a quarter fewer weights."""


@dataclass(frozen=True)
class ElmoSettings(SystemSettings):
    """Settings of an ELMo, whose positions have no limit."""

    cell_size: Advanced[int | None] = None
    """Number of units of each LSTM. By default the model's width; with more units, the outputs are
    projected to the width. The paper has eight times the width, which trains far slower."""


@dataclass(frozen=True)
class T5Settings(SystemSettings):
    """Settings of a T5, whose positions have no limit."""

    feed_forward_proj: Advanced[Literal["relu", "gated-gelu"]] = "relu"
    """Feed-forward layers: relu (version 1.0), or gated-gelu (version 1.1), which has an output
    layer of its own, too."""


@dataclass(frozen=True)
class GptSettings(SystemSettings):
    """Settings of a GPT."""

    max_position_embeddings: Advanced[int | None] = None
    """Number of position embeddings: the longest text in tokens that the model can ever read. By
    default --max-length, as later positions would stay untrained."""
    initializer_range: Advanced[float] = 0.02
    """Standard deviation of new weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest < self.max_length:
            raise SettingError(
                "model.max_position_embeddings",
                self.max_position_embeddings,
                f"at least {option('model.max_length')}, {self.max_length}",
            )

    @property
    def longest(self) -> int:
        if self.max_position_embeddings is None:
            return self.max_length
        return self.max_position_embeddings

    def config_fields(self) -> dict[str, Any]:
        """Return the fields of `GptConfig` that come from these settings, except its size."""
        return {
            "n_positions": self.longest,
            "initializer_range": self.initializer_range,
            "resid_pdrop": self.dropout,
            "embd_pdrop": self.dropout,
            "attn_pdrop": self.dropout,
        }
