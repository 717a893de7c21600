import json
import os
import pickle
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from bertsmith.errors import CheckpointError
from bertsmith.model.checkpoint_formats.safetensors_file import (
    CHECKSUM,
    TYPE_NAMES,
    checksum,
    safetensors_parts,
    write_safetensors,
)
from bertsmith.model.weights import read_weights


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"b": torch.randn(5, 3), "a": torch.randn(7).bfloat16(), "c": torch.randn(2, 3, 1)}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_what_is_written_is_read(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert_same(read_weights(tmp_path), tensors)
    with safetensors.safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", CHECKSUM: checksum(tensors)}


def test_checksum_sees_name_type_shape_and_value(tensors: dict[str, Tensor]) -> None:
    reordered = dict(reversed(tensors.items()))
    changed = [
        {**tensors, "d": torch.zeros(0)},
        {**tensors, "a": tensors["a"].float()},
        {**tensors, "b": tensors["b"].view(3, 5)},
        {**tensors, "c": tensors["c"].nextafter(torch.tensor(9.0))},
        {"z" if name == "a" else name: tensor for name, tensor in tensors.items()},
    ]
    assert checksum(reordered) == checksum(tensors)
    assert len({checksum(tensors), *map(checksum, changed)}) == 6


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_flipped_byte_is_found(tensors: dict[str, Tensor], tmp_path: Path, place: int) -> None:
    file = tmp_path / "model.safetensors"
    write_safetensors(file, tensors)
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: truncated or altered"):
        read_weights(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 60, 300])
def test_a_truncated_file_is_found(tensors: dict[str, Tensor], tmp_path: Path, size: int) -> None:
    file = tmp_path / "model.safetensors"
    write_safetensors(file, tensors)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(CheckpointError, match="Copy or download the file again"):
        read_weights(tmp_path)


def test_equal_tensors_give_equal_files(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.safetensors" for number in range(20)]
    for file in files:
        write_safetensors(file, tensors)
    assert len({file.read_bytes() for file in files}) == 1
    assert_same(safetensors.torch.load_file(files[0]), tensors)


def test_every_type_is_read_by_the_library(tmp_path: Path) -> None:
    tensors = {
        f"{name} ä": torch.arange(count).to(dtype).view(1, count)
        for count, (dtype, name) in enumerate(TYPE_NAMES.items(), 1)
    }
    write_safetensors(tmp_path / "model.safetensors", {**tensors, "one": torch.tensor(7.0)})
    found = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert found.pop("one") == 7
    assert {name: found[name].dtype for name in found} == {n: t.dtype for n, t in tensors.items()}
    assert_same(found, tensors)


def test_nothing_is_copied_to_be_written(tensors: dict[str, Tensor]) -> None:
    parts = list(safetensors_parts(tensors, {}))[2:]
    assert len(parts) == len(tensors)
    for tensor in tensors.values():
        own = tensor.view(torch.uint8).numpy()
        assert own.size == 0 or any(np.shares_memory(own, np.asarray(part)) for part in parts)


def test_a_file_without_checksum_is_read(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    assert_same(read_weights(tmp_path), tensors)


def test_tensors_outlive_the_file(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_safetensors(file, tensors)
    found = read_weights(tmp_path)
    file.write_bytes(b"\0" * file.stat().st_size)
    assert_same(found, tensors)


@pytest.mark.parametrize("old_format", [True, False])
def test_bin_files(tensors: dict[str, Tensor], tmp_path: Path, old_format: bool) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(tensors, file, _use_new_zipfile_serialization=not old_format)
    assert_same(read_weights(tmp_path), tensors)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        read_weights(tmp_path)


def test_folders_whose_name_is_not_utf8(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    whole, old = (tmp_path / os.fsdecode(name) for name in (b"m\xff", b"o\xff"))
    for folder in (whole, old):
        folder.mkdir()
    write_safetensors(whole / "model.safetensors", tensors)
    with (old / "pytorch_model.bin").open("wb") as file:
        torch.save(tensors, file)
    assert_same(read_weights(whole), tensors)
    assert_same(read_weights(old), tensors)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_that_are_no_numbers_are_refused(
    tensors: dict[str, Tensor], tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    tensors["c"] = tensors["c"].to(dtype)
    tensors["c"][1, 2, 0] = value
    expected = r"c holds 1 value that is no finite number among 6\. .*finite.*earlier"
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: " + expected):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: " + expected):
        read_weights(tmp_path)


def test_large_weights_are_numbers(tmp_path: Path) -> None:
    tensors = {
        "large": torch.full((1000,), 3e38),
        "half": torch.full((1000,), 60_000.0).half(),
        "none": torch.zeros(0),
    }
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert_same(read_weights(tmp_path), tensors)


class Malicious:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("by_torch", [True, False])
def test_nothing_is_unpickled(tmp_path: Path, by_torch: bool) -> None:
    mark = tmp_path / "ran"
    content = {"weight": torch.zeros(3), "evil": Malicious(mark)}
    file = tmp_path / "pytorch_model.bin"
    if by_torch:
        torch.save(content, file)
    else:
        file.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(CheckpointError, match="Tensors alone are read"):
        read_weights(tmp_path)
    assert not mark.exists()


def test_a_bin_that_holds_no_dictionary(tmp_path: Path) -> None:
    torch.save([torch.zeros(3)], tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="it holds a list"):
        read_weights(tmp_path)


def write_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    weight_map = {}
    for number, (name, tensor) in enumerate(tensors.items()):
        shard = f"model-{number}.safetensors"
        safetensors.torch.save_file({name: tensor}, folder / shard)
        weight_map[name] = shard
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_shards(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    write_shards(tmp_path, tensors)
    assert_same(read_weights(tmp_path), tensors)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"names the shard 'model-1\.safetensors'"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    "index",
    [
        "{",
        "[]",
        "{}",
        '{"weight_map": {"a": "../a.safetensors"}}',
        '{"weight_map": {"a": 5}}',
        '{"weight_map": {"a": 5, "b": "x", "c": null}}',
        '{"weight_map": ' + "[" * 200_000,
    ],
    ids=range(7),
)
def test_a_bad_index(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match=r"index\.json"):
        read_weights(tmp_path)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"found no weights.*TensorFlow"):
        read_weights(tmp_path)


@pytest.mark.parametrize("old_format", [True, False])
def test_a_damaged_bin(tensors: dict[str, Tensor], tmp_path: Path, old_format: bool) -> None:
    file = tmp_path / "pytorch_model.bin"
    file.touch()
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: truncated or altered \(\w+"):
        read_weights(tmp_path)
    torch.save(tensors, file, _use_new_zipfile_serialization=not old_format)
    intact, rng, refused = file.read_bytes(), random.Random(7), 0
    for _ in range(300):
        damaged = bytearray(intact)
        for _ in range(rng.randrange(1, 20)):
            damaged[rng.randrange(len(damaged) if old_format else 900)] = rng.randrange(256)
        file.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's own, of a format that it does not know
                read_weights(tmp_path)
        except CheckpointError as error:
            assert str(file) in str(error)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({1: torch.zeros(3)}, "by the name 1; allowed are texts"),
        (
            {"a": torch.eye(3).to_sparse()},
            r"a is a tensor of the layout torch\.sparse_coo; allowed",
        ),
        ({"a": torch.zeros(3, device="meta")}, "a is a tensor without values; allowed"),
    ],
    ids=range(3),
)
def test_tensors_of_other_kinds(tmp_path: Path, content: object, named: str) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: .*" + named):
        read_weights(tmp_path)
