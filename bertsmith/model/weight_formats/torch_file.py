"""Reading of pytorch_model.bin: tensors alone; other objects, which could run code, are refused."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, read_error, warn_once
from bertsmith.model.weight_formats.damage import damaged
from bertsmith.system.memory import lacks_memory

WEIGHTS_KEYS = ("state_dict", "model_state_dict", "model", "module")
"""Keys of the weights in checkpoints of training programs: Lightning, torch's tutorials,
DeepSpeed."""


def read_bin(file: Path) -> dict[str, Tensor]:
    """Read the tensors of one pytorch_model.bin; anything but tensors is refused, not run.

    They keep their shapes and dtypes. Weights below a training program's key are read with a
    warning.

    Raises:
        CheckpointError: the file cannot be read, is damaged, holds objects other than tensors, or
            holds tensors below several keys, none of them usual.
        MemoryError: there is not enough memory.
    """
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{file}: holds more than tensors, or is damaged. Tensors alone are read, since other "
            "objects can run any program. Copy the file again, or ask for model.safetensors in its "
            "place."
        ) from error
    except OSError as error:
        raise read_error(CheckpointError, file, error) from error
    except Exception as error:  # a damaged file can raise any error in torch's reader
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        reason = str(error).splitlines() or [type(error).__name__]
        raise damaged(file, reason[0]) from error
    if not isinstance(loaded, dict):
        raise damaged(file, f"it holds a {type(loaded).__name__}, not named tensors")
    tensors = _tensors_of(_weights_in(file, loaded))
    for name, tensor in tensors.items():
        _check_plain(file, name, tensor)
    return tensors


def _weights_in(file: Path, loaded: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the weights in a file's content; warn if they stand below a key.

    Raises:
        CheckpointError: tensors stand below several keys, none of them in `WEIGHTS_KEYS`.
    """
    below = {
        key: value
        for key, value in loaded.items()
        if isinstance(value, dict) and len(_tensors_of(value)) > len(_tensors_of(loaded))
    }
    if not below:
        return loaded
    usual_keys = [key for key in WEIGHTS_KEYS if key in below]
    candidates = list(below) if len(below) == 1 else usual_keys
    if not candidates:
        raise CheckpointError(
            f"{file}: tensors stand under {' and '.join(map(repr, below))}. Save those of the "
            "model alone: torch.save(model.state_dict(), file)."
        )
    key = candidates[0]
    warn_once(
        f"{file}: the weights stand under {key!r}, as in the checkpoint of a training program, "
        "and are read from there. Other programs may not find them: save the model's state_dict() "
        "alone."
    )
    return below[key]


def _tensors_of(values: Mapping[Any, Any]) -> dict[Any, Tensor]:
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _check_plain(file: Path, name: object, tensor: Tensor) -> None:
    """Raise CheckpointError unless a tensor is named by a string and dense, with values."""
    if not isinstance(name, str):
        raise CheckpointError(
            f"{file}: holds a tensor by the name {name!r}; allowed are texts. Save the model's "
            "state_dict()."
        )
    if tensor.layout != torch.strided or tensor.is_meta:
        form = "without values" if tensor.is_meta else f"of the layout {tensor.layout}"
        raise CheckpointError(
            f"{file}: {name} is a tensor {form}; allowed are dense tensors. Save the model with "
            "dense weights."
        )
