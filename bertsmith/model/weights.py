"""Files of weights to named tensors and back, checked; tensors alone are read.

Reads model.safetensors or pytorch_model.bin, whole or in shards with an index. What we write
carries a checksum over names, types, shapes and bytes, which is verified when it is there; a
folder saved again by another program has none and is read without.
"""

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertsmith.errors import CheckpointError, read_error
from bertsmith.system.files import atomic_write, utf8_name
from bertsmith.system.memory import lacks_memory

CHECKSUM = "bertsmith_sha256"
"""The key of the checksum in the file's metadata."""

TYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""What safetensors calls them."""


def read_weights(directory: Path) -> dict[str, Tensor]:
    """All tensors of a folder by their stored names, on the CPU.

    Raises:
        CheckpointError: no weights, a shard missing, a file truncated, altered or unsafe, or a
            weight that is not a finite number.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(directory):
        read = read_safetensors if file.suffix == ".safetensors" else read_bin
        found = read(file)
        check_finite(file, found)
        tensors.update(found)
    return tensors


def weight_files(directory: Path) -> list[Path]:
    """The files that hold a folder's weights; safetensors are preferred."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (directory / name).is_file():
            return [directory / name]
        index = directory / f"{name}.index.json"
        if index.is_file():
            return list(indexed_shards(index))
    raise CheckpointError(
        f"{directory}: found no weights. Expected model.safetensors or pytorch_model.bin, whole or "
        "in shards. Weights of TensorFlow or Flax must first be saved by transformers for PyTorch."
    )


def indexed_shards(index: Path) -> Iterator[Path]:
    """The shards that an index names; each must lie beside it."""
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(index, "it is not an index of weights") from error
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise damaged(index, f"it names the shard {wrong[0]!r}, which is no text")
    for name in sorted(names):
        shard = index.parent / name
        if Path(name).name != name or not shard.is_file():
            raise CheckpointError(
                f"{index}: names the shard {name!r}, which is not in the folder. Copy or download "
                "the whole folder again."
            )
        yield shard


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """The tensors of one safetensors file, in memory of their own."""
    try:
        # safetensors and torch both open it, and if they cannot they do not say why.
        with file.open("rb"), file.open("rb"):
            pass
        with utf8_name(file) as name, safe_open(name, framework="pt") as opened:
            metadata = opened.metadata() or {}
            # The copies keep a model independent of the file, which is only mapped.
            tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
    except OSError as error:
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        raise read_error(CheckpointError, file, error) from error
    except (SafetensorError, ValueError) as error:
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        raise damaged(file, str(error)) from error
    if CHECKSUM in metadata and metadata[CHECKSUM] != checksum(tensors):
        raise damaged(file, "its checksum differs from the one it was saved with")
    return tensors


def read_bin(file: Path) -> dict[str, Tensor]:
    """The tensors of one pytorch_model.bin; anything but tensors is refused, not run."""
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{file}: holds more than tensors, or is damaged. Tensors alone are read, since other "
            "objects can run any program. Ask for the model as model.safetensors."
        ) from error
    except OSError as error:
        raise read_error(CheckpointError, file, error) from error
    except Exception as error:  # what damage makes the reader stumble over can be anything
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        reason = str(error).splitlines() or [type(error).__name__]
        raise damaged(file, reason[0]) from error
    if not isinstance(loaded, dict):
        raise damaged(file, f"it holds a {type(loaded).__name__}, not named tensors")
    tensors = {name: value for name, value in loaded.items() if isinstance(value, Tensor)}
    for name, tensor in tensors.items():
        check_plain(file, name, tensor)
    return tensors


def check_plain(file: Path, name: object, tensor: Tensor) -> None:
    """Raise CheckpointError unless a tensor has a name, and a value at each place."""
    if not isinstance(name, str):
        raise CheckpointError(
            f"{file}: holds a tensor by the name {name!r}; allowed are texts. Save the model's "
            "state_dict()."
        )
    if tensor.layout != torch.strided or tensor.is_meta:
        kind = "without values" if tensor.is_meta else f"of the layout {tensor.layout}"
        raise CheckpointError(
            f"{file}: {name} is a tensor {kind}; allowed are dense tensors. Save the model with "
            "dense weights."
        )


def check_finite(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a weight is NaN or infinite; every answer would be NaN.

    Both pass through to the smallest and largest value, which cost 3 % of loading a base model
    (looking at each weight costs 50 %).
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        low, high = tensor.float().aminmax()
        if not (low.isfinite() and high.isfinite()):
            wrong = int((~tensor.float().isfinite()).sum())
            values = "value that is" if wrong == 1 else "values that are"
            raise CheckpointError(
                f"{file}: {name} holds {wrong:,} {values} no finite number among "
                f"{tensor.numel():,}. Weights must be finite. Take an earlier checkpoint, or "
                "copy the file again."
            )


def damaged(file: Path, reason: str) -> CheckpointError:
    """The error for a file whose content cannot be trusted."""
    return CheckpointError(
        f"{file}: truncated or altered ({reason}). Copy or download the file again."
    )


def write_safetensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with their checksum, whole or not at all."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {CHECKSUM: checksum(stored), "format": "pt"}
    with atomic_write(file) as opened:
        opened.writelines(safetensors_parts(stored, metadata))


def safetensors_parts(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """A safetensors file: the header's length (8 bytes, little endian), the header as JSON, and the
    bytes of each tensor.

    The library's `save` holds copies of all tensors (of a checkpoint of base, 2.5 GB at a run's
    peak); its `save_file` opens the file itself, which would be neither whole or not at all nor
    fail as other files do; both put metadata in random order. As there, wider types come first, so
    that each number stands at a multiple of its size.
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
    """SHA-256 over names, types, shapes and bytes, whatever the order of the tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(_bytes_of(tensor.contiguous()))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    return tensor.flatten().view(torch.uint8).numpy().data
