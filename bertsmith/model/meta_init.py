"""Models on torch's meta device: without memory, for weights that are filled in later."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Model = TypeVar("Model", bound=nn.Module)


@contextlib.contextmanager
def on_meta_device() -> Iterator[None]:
    """Build modules in the block on the meta device, without memory.

    Initializers are skipped: on the meta device torch would import its compiler for them, which
    takes a second.
    """
    with torch.device("meta"), _SkipInitializers():
        yield


def without_values(model: Model) -> Model:
    """Return a copy of a model on the meta device."""
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): _of_same_shape(tensor) for tensor in tensors})


def _of_same_shape(tensor: Tensor) -> Tensor:
    """Return a tensor or parameter on the meta device with the shape and dtype of `tensor`."""
    empty = torch.empty_like(tensor, device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(empty, tensor.requires_grad)
    return empty


class _SkipInitializers(TorchFunctionMode):
    """Makes the functions of torch.nn.init return meta tensors unchanged."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            tensor = options["tensor"] if "tensor" in options else args[0]
            if tensor.is_meta:  # new heads are built in memory, and need their initial values
                return tensor
        return func(*args, **options)
