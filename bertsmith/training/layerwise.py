"""Layer-wise learning-rate decay and frozen layers.

Lower layers hold general knowledge of language that few examples should not disturb (Howard & Ruder
2018, section 3.2, "discriminative fine-tuning").
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.compute import FREE
from bertsmith.training.settings import OptimSettings


@dataclass(frozen=True)
class LayerwiseOptim(OptimSettings):
    """Settings of the optimizer with a learning rate for each layer of a model."""

    num_layers: int = field(default=0, metadata=FREE)  # follows from the model
    """Number of the model's layers."""
    layer_decay: float = 1.0
    """Layer-wise learning-rate decay: each layer's rate is this share of the rate of the layer
    above it. The pooler and the head have the full rate; the embeddings count as the layer below
    the first."""
    freeze_layers: int = 0
    """Number of frozen layers from the bottom; above 0, the embeddings are frozen too."""
    freeze_embeddings: bool = False
    """Whether the embeddings are frozen."""
    shared_parts: Mapping[str, int] = field(default_factory=dict)
    """Modules that several layers share, as in ALBERT. A key is the beginning of the names of their
    parameters: "layers.0.attention" stands for "layers.0.attention.…" and for
    "layers.0.attention_norm.…". Its value is the last layer that uses them, counted from 0, whose
    rate they have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.layer_decay <= 1:
            raise SettingError("layer_decay", self.layer_decay, "above 0, at most 1")
        if not 0 <= self.freeze_layers <= self.num_layers:
            raise SettingError(
                "freeze_layers",
                self.freeze_layers,
                f"0 to {self.num_layers}, the number of this model's layers",
            )
        for part, last in self.shared_parts.items():
            first = int(part.split(".")[1])  # layers 0 to `last` share "layers.0.attention"
            if first < self.freeze_layers <= last:
                raise ConfigError(
                    f"{option('freeze_layers')}: found {self.freeze_layers}; layers {first + 1} to "
                    f"{last + 1} of this model share weights. Freeze {first} or {last + 1}."
                )

    def rate_scale(self, name: str) -> float:
        """Return a parameter's factor of the learning rate; 0 if frozen.

        >>> settings = LayerwiseOptim(num_layers=2, layer_decay=0.5, freeze_embeddings=True)
        >>> names = ("heads.classify.dense.bias", "layers.1.a", "layers.0.a", "embeddings.word")
        >>> [settings.rate_scale(name) for name in names]
        [1.0, 0.5, 0.25, 0.0]
        """
        depth = self._depth(name)
        is_frozen = depth <= self.freeze_layers and (
            self.freeze_layers > 0 or (depth == 0 and self.freeze_embeddings)
        )
        return 0.0 if is_frozen else float(self.layer_decay ** (self.num_layers + 1 - depth))

    def _depth(self, name: str) -> int:
        """Return 0 for embeddings, 1 to `num_layers` for layers, one more for all above them."""
        if name.startswith("embeddings."):
            return 0
        for part, last in self.shared_parts.items():
            if name.startswith(part):
                return last + 1
        layer = re.match(r"layers\.(\d+)\.", name)
        return int(layer[1]) + 1 if layer else self.num_layers + 1


def freeze(model: nn.Module, settings: OptimSettings) -> None:
    """Turn off gradients of the parameters whose learning rate is 0."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(settings.rate_scale(name) > 0)
