"""Reading and writing of model.safetensors, with a checksum over names, types, shapes and bytes.

A file that another program wrote has no checksum, and is read without one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertsmith.errors import CheckpointError, read_error
from bertsmith.model.weight_formats.damage import damaged
from bertsmith.system.files import atomic_write
from bertsmith.system.memory import lacks_memory
from bertsmith.system.paths import utf8_name

CHECKSUM_KEY = "bertsmith_sha256"
"""The key of the checksum in the file's metadata."""

TYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of types in safetensors."""


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file into memory of their own.

    They keep their shapes and dtypes.

    Raises:
        CheckpointError: the file cannot be read, is damaged, or differs from its checksum.
        MemoryError: there is not enough memory.
    """
    try:
        # safetensors and torch each open the file, and neither says why that failed. So the file is
        # opened twice before, by Python, whose error says why.
        with file.open("rb"), file.open("rb"):
            pass
        with utf8_name(file) as name, safe_open(name, framework="pt") as opened:
            metadata = opened.metadata() or {}
            # The tensors are copied, since safetensors only maps the file, which may change later.
            tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
    except OSError as error:
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        raise read_error(CheckpointError, file, error) from error
    except (SafetensorError, ValueError) as error:
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        raise damaged(file, str(error)) from error
    if CHECKSUM_KEY in metadata and metadata[CHECKSUM_KEY] != checksum(tensors):
        raise damaged(file, "its checksum differs from the one it was saved with")
    return tensors


def write_safetensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with their checksum, whole or not at all.

    They have any shape, and dtypes of `TYPE_NAMES`.

    Raises:
        InputError: the disk is full or cannot be written.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {CHECKSUM_KEY: checksum(stored), "format": "pt"}
    with atomic_write(file) as opened:
        opened.writelines(safetensors_parts(stored, metadata))


def safetensors_parts(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """Yield the header's length (8 bytes, little endian), its JSON, and each tensor's bytes.

    The safetensors library is not used for writing. Its `save` holds copies of all tensors (2.5 GB
    at a run's peak for a checkpoint of base). Its `save_file` opens the file itself: an interrupted
    write would leave half a file, and errors would differ from those of our other files. Both write
    metadata in random order. As in the library, wider types come first, so that each number stands
    at a multiple of its size.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        first, end = end, end + tensors[name].nbytes
        header[name] = {
            "dtype": TYPE_NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [first, end],
        }
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    padding = b" " * (-len(written) % 8)
    yield (len(written) + len(padding)).to_bytes(8, "little")
    yield written + padding
    for name in names:
        yield _bytes_of(tensors[name])


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Compute the SHA-256 over names, types, shapes and bytes, in any order of tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(_bytes_of(tensor.contiguous()))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    if not tensor.numel():  # an empty tensor may have strides of 0, which `view` refuses
        return memoryview(b"")
    return tensor.flatten().view(torch.uint8).numpy().data
