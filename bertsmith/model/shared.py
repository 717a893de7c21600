"""Memory that several processes share, and a model for reading whose weights lie in it.

Who trains with a teacher has it in every process, and its weights once: a process is sent where
they are, not what they are.
"""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.bert import BertModel
from bertsmith.model.skeleton import without_values

ALIGNMENT = 64
"""Bytes to which a weight's first is aligned, as the processor likes."""


class SharedFile:
    """Zeros that other processes can map by the file's `path`, until `close`.

    The file has no place on a disk where the system allows that.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        if hasattr(os, "memfd_create"):
            self._file = os.memfd_create("bertsmith")
            self.path = f"/proc/{os.getpid()}/fd/{self._file}"
            self._named: str | None = None
        else:
            self._file, self.path = tempfile.mkstemp(prefix="bertsmith-")
            self._named = self.path
        os.ftruncate(self._file, num_bytes)

    def map(self) -> Tensor:
        """The file's bytes, uint8 `[num_bytes]`; they stay mapped as long as the tensor lives."""
        return map_file(self.path, self.num_bytes)

    def close(self) -> None:
        """From now on nobody else can map it."""
        os.close(self._file)
        if self._named is not None:
            Path(self._named).unlink()


def map_file(path: str, num_bytes: int) -> Tensor:
    """The bytes of a shared file, uint8 `[num_bytes]`."""
    return torch.from_file(path, shared=True, size=num_bytes, dtype=torch.uint8)


class SharedModel:
    """A model that is only read; pickling it sends no weights, they are mapped on arrival.

    That works as long as the process that pickled it lives and keeps it. On other devices than a
    CPU nothing is shared, and it cannot be pickled.
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
        _place(self.model, map_file(state["path"], state["num_bytes"]), fill=False)

    def _share(self) -> None:
        """Move the weights to where others can map them."""
        self._file = SharedFile(sum(map(_room, self.model.parameters())))
        weakref.finalize(self, self._file.close)
        _place(self.model, self._file.map(), fill=True)


def _place(model: BertModel, memory: Tensor, *, fill: bool) -> None:
    """Let the weights be views of `memory`, one after another; with `fill`, put them there."""
    first = 0
    for parameter in model.parameters():
        size = parameter.numel() * parameter.element_size()
        view = memory[first : first + size].view(parameter.dtype).view(parameter.shape)
        if fill:
            view.copy_(parameter.data)
        parameter.data = view
        first += _room(parameter)


def _room(parameter: Tensor) -> int:
    return -(-parameter.numel() * parameter.element_size() // ALIGNMENT) * ALIGNMENT
