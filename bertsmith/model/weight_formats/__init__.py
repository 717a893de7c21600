"""Readers of weight files: a format is a file here and an entry of `READERS`."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.model.weight_formats.torch_file import read_bin

READERS: dict[str, Callable[[Path], dict[str, Tensor]]] = {
    "model.safetensors": read_safetensors,
    "pytorch_model.bin": read_bin,
}
"""Readers by the name of the file, the preferred one first. Shards are listed in `NAME.index.json`.
"""
