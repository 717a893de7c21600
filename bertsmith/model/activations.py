"""Activation functions by the names that Hugging Face's `hidden_act` uses."""

from collections.abc import Callable, Mapping
from functools import partial

import torch.nn.functional as F
from torch import Tensor

# No lambda: a model goes to other processes by pickle.
_gelu_new = partial(F.gelu, approximate="tanh")

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_new,
    "gelu_pytorch_tanh": _gelu_new,
    "gelu_python": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
"""BERT's own is `gelu`, the exact one. Several names are those of one function; a config keeps the
one that it was given."""
