"""Memory shared by processes, and a read-only model in it.

In distillation, every training process uses the teacher's model, from which the student learns. But
the teacher's weights exist only once: the processes get the path of the shared memory instead.
"""

import errno
import io
import math
import os
import pickle
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.meta_init import without_values

ALIGNMENT = 64
"""Bytes to which each weight is aligned, for the processor's vector loads."""


class SharedFile:
    """Zeroed memory that other processes can map by its `path`.

    They can do so until `close` is called, or this object is deleted. Where the system has
    `memfd_create` the memory takes no space on the disk; elsewhere it is a temporary file.

    Raises:
        ConfigError: `num_bytes` is more than the system allows for a file.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        temporary_path = None
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("bertsmith")
            self.path = f"/proc/{os.getpid()}/fd/{descriptor}"
        else:
            descriptor, self.path = tempfile.mkstemp(prefix="bertsmith-")
            temporary_path = Path(self.path)
        self.close = weakref.finalize(self, _close, descriptor, temporary_path)
        """Closes the file; existing mappings stay."""
        try:
            os.ftruncate(descriptor, num_bytes)
        except OSError as error:
            self.close()
            if error.errno != errno.EFBIG:
                raise
            raise ConfigError(
                f"shared memory: the system refused {num_bytes / 1e6:,.1f} MB "
                f"({error.strerror}). The limit on the size of files counts here, too: raise it "
                "(ulimit -f unlimited), then run the command again."
            ) from error

    def map(self) -> Tensor:
        """Return the file's bytes, uint8 `[num_bytes]`, mapped while the tensor lives."""
        return map_file(self.path, self.num_bytes)


def _close(descriptor: int, temporary_path: Path | None) -> None:
    os.close(descriptor)
    if temporary_path is not None:
        temporary_path.unlink()


def map_file(path: str, num_bytes: int) -> Tensor:
    """Map the bytes of a shared file, uint8 `[num_bytes]`; writing to them changes the file."""
    return torch.from_file(path, shared=True, size=num_bytes, dtype=torch.uint8)


class SharedModel:
    """A read-only model that is pickled without its weights.

    Unpickling maps the weights from the memory that all processes share.

    The process that pickled the model must live, and keep this object, until others have unpickled
    it. On devices other than a CPU nothing is shared: there only `pickle_with_weights` works.
    """

    def __init__(self, model: BertModel) -> None:
        self.model = model.requires_grad_(False)
        self._file: SharedFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._file is None:
            self._share()
        assert self._file is not None
        skeleton = without_values(self.model)
        return {"skeleton": skeleton, "path": self._file.path, "num_bytes": self._file.num_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._file = None
        self.model = state["skeleton"].to_empty(device="cpu")
        _map_weights(self.model, map_file(state["path"], state["num_bytes"]), fill=False)

    def _share(self) -> None:
        self._file = SharedFile(sum(map(_aligned_bytes, self.model.parameters())))
        _map_weights(self.model, self._file.map(), fill=True)


def pickle_with_weights(value: object) -> bytes:
    """Pickle a value for another machine, which cannot map the memory of a `SharedModel`.

    The unpickled model has its weights in memory of its own, on a device of the same kind. If the
    other machine has several GPUs, the current one is taken.
    """
    file = io.BytesIO()
    _PicklerWithWeights(file).dump(value)
    return file.getvalue()


class _PicklerWithWeights(pickle.Pickler):
    """A pickler that replaces each `SharedModel` by a copy of its model, with weights."""

    def reducer_override(self, value: object) -> Any:
        if not isinstance(value, SharedModel):
            return NotImplemented  # pickled as usual
        # The copy is in main memory, as the other machine may have no GPU of the same number. Each
        # of its weights has memory of its own. The weights of a `SharedModel` are views of one
        # memory, and with each view pickle would send the whole memory.
        copied = without_values(value.model).to_empty(device="cpu")
        copied.load_state_dict(value.model.state_dict())
        return _receive, (copied, value.model.device.type)


def _receive(model: BertModel, device_type: str) -> SharedModel:
    return SharedModel(model.to(device_type))


def _map_weights(model: BertModel, memory: Tensor, *, fill: bool) -> None:
    """Make weights consecutive views of `memory`; with `fill`, copy them there."""
    first = 0
    for parameter in model.parameters():
        size = parameter.numel() * parameter.element_size()
        view = memory[first : first + size].view(parameter.dtype).view(parameter.shape)
        if fill:
            view.copy_(parameter.data)
        parameter.data = view
        first += _aligned_bytes(parameter)


def _aligned_bytes(parameter: Tensor) -> int:
    """Return the bytes of a weight, rounded up to a multiple of `ALIGNMENT`."""
    num_bytes = parameter.numel() * parameter.element_size()
    return math.ceil(num_bytes / ALIGNMENT) * ALIGNMENT
