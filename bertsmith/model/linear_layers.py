"""Replacement of an encoder's linear layers by faster ones, for a model that is only read."""

from collections.abc import Callable

import torch
from torch import nn

from bertsmith.model.bert import BertModel


def replace_linears(
    model: BertModel, make: Callable[[nn.Module, str, nn.Linear], nn.Module]
) -> None:
    """Replace each linear layer of the encoder's layers by what `make` returns for it.

    Args:
        make: gets the module that has the linear layer, its name there, and the layer itself.
    """
    with torch.no_grad():
        for module in list(model.layers.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, make(module, name, child))
