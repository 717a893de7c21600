"""The base class of models that the training loop can train.

The optimizer gets a list of the model's parameters, each with a `ParameterSpec`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter, and how it is stored and updated."""

    name: str
    shape: torch.Size
    kind: Literal["matrix", "vector", "embedding"]
    """The kind of parameter, which decides its update rule: some rules are for matrices only."""
    decay: bool
    """Whether weight decay applies."""
    fp32_only: bool = False
    """Whether the parameter stays fp32 while the rest of the model computes in bf16."""


class TrainableModel(nn.Module):
    """A module that the training loop can train."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, each once; biases and LayerNorm weights have no decay."""
        embeddings = {
            id(module.weight) for module in self.modules() if isinstance(module, nn.Embedding)
        }
        specs = []
        for name, parameter in self.named_parameters():
            kind: Literal["matrix", "vector", "embedding"] = "matrix"
            if parameter.ndim <= 1:
                kind = "vector"
            elif id(parameter) in embeddings:
                kind = "embedding"
            specs.append(ParameterSpec(name, parameter.shape, kind, decay=kind != "vector"))
        return specs
