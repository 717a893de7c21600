"""Replacement of an encoder's linear layers by faster ones, such as int8 ones, for inference."""

from collections.abc import Callable

import torch
from torch import nn

from bertsmith.model.bert import BertModel


def replace_linears(
    model: BertModel, make: Callable[[nn.Module, str, nn.Linear], nn.Module]
) -> None:
    """Replace each `nn.Linear` in the encoder's layers by the module that `make` returns for it.

    Args:
        make: gets the module that contains the linear layer, the name of the linear layer in that
            module, and the linear layer itself.
    """
    with torch.no_grad():
        for module in list(model.layers.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, make(module, name, child))
