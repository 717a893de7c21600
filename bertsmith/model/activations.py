"""Activation functions by the names that Hugging Face's `hidden_act` uses."""

from collections.abc import Callable, Mapping
from functools import partial

import torch.nn.functional as F
from torch import Tensor

# Not a lambda: models are pickled to send them to other processes.
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
"""Activation functions; BERT uses `gelu`, the exact one. Several names may mean one function, and a
config keeps the name that it was given."""
