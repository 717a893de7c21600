"""Settings of training a system beside BERT; they need no torch."""

from dataclasses import dataclass
from typing import Any, Literal

from bertsmith.errors import SettingError, option
from bertsmith.system.bounds import check_all_largest
from bertsmith.system.compute import Advanced

MIN_LENGTH = 8
"""Least number of tokens in a row, special ones included."""

Preset = Literal["tiny", "mini", "small", "medium", "base"]


@dataclass(frozen=True)
class SystemSettings:
    """Size of the model and length of its rows, the same for all systems."""

    preset: Preset = "mini"
    """Model size: layers and width are those of a BERT of this size."""
    max_length: int = 128
    """Maximum row length in tokens, special ones included. Shorter rows train faster."""
    max_position_embeddings: Advanced[int] = 512
    """Number of position embeddings: the longest text in tokens that the model can ever read."""
    dropout: Advanced[float] = 0.1
    """Dropout of embeddings, attention weights and each layer's outputs in training."""

    def __post_init__(self) -> None:
        check_all_largest(self, "model.")
        if self.max_length < MIN_LENGTH:
            raise SettingError("model.max_length", self.max_length, f"{MIN_LENGTH} or more")
        if self.max_position_embeddings < self.max_length:
            raise SettingError(
                "model.max_position_embeddings",
                self.max_position_embeddings,
                f"at least {option('model.max_length')}, {self.max_length}",
            )
        if not 0 <= self.dropout < 1:
            raise SettingError("model.dropout", self.dropout, "at least 0 and below 1")


@dataclass(frozen=True)
class GptSettings(SystemSettings):
    """Settings of a GPT."""

    def shape(self) -> dict[str, Any]:
        """Return what a GPT's config has from these settings, besides its size."""
        return {
            "n_positions": self.max_position_embeddings,
            "resid_pdrop": self.dropout,
            "embd_pdrop": self.dropout,
            "attn_pdrop": self.dropout,
        }
