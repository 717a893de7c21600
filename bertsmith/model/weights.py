"""Reading of a folder's weights as named tensors, and checks of their values.

The weights are in one file, or in several, called shards, with an index that names them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, read_error
from bertsmith.model.weight_formats import READERS
from bertsmith.model.weight_formats.damage import damaged
from bertsmith.system.git_lfs import describe_pointer, is_pointer_file
from bertsmith.system.json_text import parse_json
from bertsmith.system.nested_folder import model_directory
from bertsmith.system.small_files import read_small_file

ADAPTER_FILE = "adapter_config.json"
ADAPTER_ALONE = (
    "holds an adapter of PEFT (such as LoRA), without the model that it changes. Load both with "
    "PEFT, merge them with model.merge_and_unload(), and save what that gives."
)


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Read all tensors of a folder by their stored names, on the CPU, in their shapes and dtypes.

    Raises:
        CheckpointError: no weights, a shard missing, a file truncated, altered or unsafe, a weight
            that is quantized or not a finite number, or one that two shards have with different
            values.
    """
    tensors: dict[str, Tensor] = {}
    reader_name, files = _find_weights(directory)
    for file in files:
        if is_pointer_file(file):
            raise CheckpointError(describe_pointer(file))
        file_tensors = READERS[reader_name](file)
        _check_not_quantized(file, file_tensors)
        _check_finite(file, file_tensors)
        _check_not_stored_twice(file, file_tensors, tensors)
        tensors.update(file_tensors)
    return tensors


def weight_files(directory: Path) -> list[Path]:
    """List the files that hold a folder's weights.

    Raises:
        CheckpointError: there are none, or the index of shards is damaged or names one that is
            missing.
    """
    return _find_weights(directory)[1]


def _find_weights(directory: Path) -> tuple[str, list[Path]]:
    """Return the name of the folder's weights, a key of `READERS`, and the files that hold them.

    If the folder has weights by several names, whole or in shards, the first in `READERS` counts.
    """
    directory = model_directory(directory)
    for name in READERS:
        if (directory / name).is_file():
            return name, [directory / name]
        index = directory / f"{name}.index.json"
        if index.is_file():
            return name, list(_indexed_shards(index))
    if (directory / ADAPTER_FILE).is_file():
        raise CheckpointError(f"{directory}: {ADAPTER_ALONE}")
    for name in READERS:
        stem, ending = name.rsplit(".", 1)
        if shards := sorted(directory.glob(f"{stem}-*-of-*.{ending}")):
            raise CheckpointError(
                f"{directory}: found shards of the weights ({shards[0].name}), but not "
                f"{name}.index.json, which says what is in them. Copy or download the whole folder "
                "again."
            )
    raise CheckpointError(
        f"{directory}: found no weights. Expected {' or '.join(READERS)}, whole or in shards. "
        "Weights of TensorFlow or Flax must first be saved by transformers for PyTorch."
    )


def _indexed_shards(index: Path) -> Iterator[Path]:
    """Yield the shards that an index names; each must lie beside it."""
    try:
        names = set(parse_json(read_small_file(index))["weight_map"].values())
    except CheckpointError:  # which is a ValueError, too
        raise
    except OSError as error:
        raise read_error(CheckpointError, index, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(index, "it is not an index of weights") from error
    if not names:
        raise damaged(index, "its weight_map names no weights")
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise damaged(index, f"it names the shard {wrong[0]!r}, which is not a string")
    for name in sorted(names):
        shard = index.parent / name
        if Path(name).name != name or not shard.is_file():
            raise CheckpointError(
                f"{index}: names the shard {name!r}, which is not in the folder. Copy or download "
                "the whole folder again."
            )
        yield shard


def _check_not_stored_twice(
    file: Path, tensors: Mapping[str, Tensor], earlier: Mapping[str, Tensor]
) -> None:
    """Raise CheckpointError if a shard has a weight of earlier shards, with other values."""
    for name in sorted(tensors.keys() & earlier.keys()):
        if not torch.equal(tensors[name], earlier[name]):
            raise CheckpointError(
                f"{file}: {name} is in another shard, too, with other values, so the shards are "
                "not of one model. Copy or download the whole folder again."
            )


def _check_not_quantized(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a weight is in fp8; without its scale, it is another number."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.itemsize == 1:
            raise CheckpointError(
                f"{file}: {name} is quantized ({tensor.dtype}); allowed are weights in fp32, fp16 "
                "or bf16. Take the model as it was before."
            )


def _check_finite(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a weight is NaN or infinite, which would spoil every answer.

    NaN and infinity show in the smallest or largest value. Finding those two takes 3 % of the time
    to load a base model; checking every weight takes 50 %.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        low, high = tensor.float().aminmax()
        if not (low.isfinite() and high.isfinite()):
            num_wrong = int((~tensor.float().isfinite()).sum())
            values = "value that is" if num_wrong == 1 else "values that are"
            raise CheckpointError(
                f"{file}: {name} holds {num_wrong:,} {values} NaN or infinite, of "
                f"{tensor.numel():,} in all. Weights must be finite. Take an earlier checkpoint, "
                "or copy the file again."
            )
