"""A model without values, for those that are about to be read from a file."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextlib.contextmanager
def skeleton() -> Iterator[None]:
    """Modules made in the block have parameters on the meta device: shapes, and no memory.

    Left to itself torch would draw first values even there, and import its compiler for that,
    which takes a second.
    """
    with torch.device("meta"), _NoFirstValues():
        yield


class _NoFirstValues(TorchFunctionMode):
    """The functions of torch.nn.init give back tensors without memory as they were given."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            tensor = given["tensor"] if "tensor" in given else args[0]
            if tensor.is_meta:  # new heads are not, and begin as the model says
                return tensor
        return func(*args, **given)
