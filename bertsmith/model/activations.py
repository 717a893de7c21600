"""Activation functions by the names that Hugging Face's `hidden_act` uses."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]

# Not a lambda: models are pickled to send them to other processes.
_gelu_new = partial(F.gelu, approximate="tanh")
# F.gelu cannot overwrite its input.
_gelu_in_place = torch._C._nn.gelu_  # type: ignore[attr-defined]

ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_new,
    "gelu_pytorch_tanh": _gelu_new,
    "gelu_python": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
"""Activation functions; BERT uses `gelu`, the exact one. Several names may mean one function, and a
config keeps the name that it was given."""

IN_PLACE: Mapping[Activation, Activation] = {
    F.gelu: _gelu_in_place,
    _gelu_new: partial(_gelu_in_place, approximate="tanh"),
    F.relu: partial(F.relu, inplace=True),
    F.silu: partial(F.silu, inplace=True),
}
"""For each activation function one that computes the same and overwrites its input, which must not
need gradients."""


def lowest_output(activation: Activation) -> float:
    """Return the lowest value of one of `ACTIVATIONS`, such as -0.17 for GELU, within 1e-6."""
    return float(activation(torch.linspace(-8, 0, 8001)).min())
