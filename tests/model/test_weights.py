import json
import math
import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from damage import damages
from refusals import refuses

from bertsmith.errors import CheckpointError
from bertsmith.model.weight_formats.safetensors_file import (
    CHECKSUM_KEY,
    TYPE_NAMES,
    write_safetensors,
)
from bertsmith.model.weights import read_weights


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return {"b": torch.randn(5, 3), "a": torch.randn(7).bfloat16(), "c": torch.randn(2, 3, 1)}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_what_is_written_is_read_and_outlives_the_file(tensors, tmp_path):
    folder = tmp_path / os.fsdecode(b"m\xff")  # a name that is not UTF-8
    folder.mkdir()
    file = folder / "model.safetensors"
    file.write_bytes(safetensors.torch.save(tensors))
    assert_same(read_weights(folder), tensors)
    write_safetensors(file, tensors)
    found = read_weights(folder)
    file.write_bytes(b"\0" * file.stat().st_size)
    assert_same(found, tensors)
    every = {f"{name} ä": torch.arange(7).to(dtype) for dtype, name in TYPE_NAMES.items()}
    write_safetensors(tmp_path / "a", {**every, "one": torch.tensor(7.0)})
    found = safetensors.torch.load_file(tmp_path / "a")
    assert found.pop("one") == 7
    assert {name: found[name].dtype for name in found} == {n: t.dtype for n, t in every.items()}
    assert_same(found, every)


def test_a_flipped_byte_or_a_cut_file_is_found(tensors, tmp_path):
    file = tmp_path / "model.safetensors"
    write_safetensors(file, tensors)
    intact = file.read_bytes()
    # The header's length, then all behind the metadata: names, types, shapes and values.
    for place in (0, 5, *range(intact.index(b"}"), len(intact), 7)):
        altered = intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :]
        for data in (altered, intact[:place]):
            file.write_bytes(data)
            with refuses(CheckpointError, "model.safetensors:", worded=False):  # its reader's words
                read_weights(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_quantized_weights_are_refused(tensors, tmp_path, dtype):
    tensors["b"] = tensors["b"].to(dtype)
    (tmp_path / "model.safetensors").write_bytes(safetensors.torch.save(tensors))
    with refuses(CheckpointError, "model.safetensors: b is quantized", str(dtype)):
        read_weights(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(tensors, tmp_path, value):
    tensors["c"][1, 2, 0] = value
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with refuses(CheckpointError, "model.safetensors: c ", "1 value", "of 6 in all"):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with refuses(CheckpointError, "pytorch_model.bin: c ", "1 value", "of 6 in all"):
        read_weights(tmp_path)


class Malicious:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("by_torch", [True, False])
def test_nothing_is_unpickled(tmp_path, by_torch):
    mark, file = tmp_path / "ran", tmp_path / "pytorch_model.bin"
    content = {"weight": torch.zeros(3), "evil": Malicious(mark)}
    torch.save(content, file) if by_torch else file.write_bytes(pickle.dumps(content, protocol=2))
    with refuses(CheckpointError, "pytorch_model.bin:"):
        read_weights(tmp_path)
    assert not mark.exists()


def test_contents_of_other_kinds(tmp_path):
    with refuses(CheckpointError, f"{tmp_path}:", "model.safetensors or pytorch_model.bin"):
        read_weights(tmp_path)
    for content, named in (
        ([torch.zeros(3)], " a list"),
        ({1: torch.zeros(3)}, "name 1;"),
        ({"a": torch.eye(3).to_sparse()}, "torch.sparse_coo"),
        ({"a": torch.zeros(3, device="meta")}, ": a "),
    ):
        torch.save(content, tmp_path / "pytorch_model.bin")
        with refuses(CheckpointError, "pytorch_model.bin:", named):
            read_weights(tmp_path)


def test_shards(tensors, tmp_path):
    parts = len(tensors)
    shards = {name: f"model-{number}-of-{parts}.safetensors" for number, name in enumerate(tensors)}
    for name, shard in shards.items():
        safetensors.torch.save_file({name: tensors[name]}, tmp_path / shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    assert_same(read_weights(tmp_path), tensors)
    (tmp_path / f"model-1-of-{parts}.safetensors").unlink()
    with refuses(CheckpointError, "index.json:", f"'model-1-of-{parts}.safetensors'"):
        read_weights(tmp_path)
    index.rename(tmp_path / "index.json")
    with refuses(
        CheckpointError, f"model-0-of-{parts}.safetensors", "model.safetensors.index.json"
    ):
        read_weights(tmp_path)
    for damaged, *named in (
        ("{",), ("[]",), ("{}",), ('{"weight_map": {}}', "weight_map"),
        ('{"weight_map": {"a": 5}}', " 5,"),
        ('{"weight_map": {"a": "../a.safetensors"}}', "'../a.safetensors'"),
        ('{"weight_map": {"a": "x", "b": "y", "c": null}}', " None,"),
        ('{"weight_map": ' + "[" * 200_000,),
    ):  # fmt: skip
        index.write_text(damaged)
        with refuses(CheckpointError, "index.json:", *named):
            read_weights(tmp_path)


def test_a_weight_in_two_shards_has_one_value(tensors, tmp_path):
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {"weight_map": {"a": shards[0], "b": shards[1], "c": shards[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write_safetensors(tmp_path / shards[0], {"a": tensors["a"], "b": tensors["b"]})
    write_safetensors(tmp_path / shards[1], {"b": tensors["b"], "c": tensors["c"]})
    assert_same(read_weights(tmp_path), tensors)
    write_safetensors(tmp_path / shards[1], {"b": -tensors["b"], "c": tensors["c"]})
    with refuses(CheckpointError, shards[1], ": b "):
        read_weights(tmp_path)


@pytest.mark.parametrize("old_format", [True, False])
def test_a_damaged_bin(tensors, tmp_path, old_format):
    file = tmp_path / "pytorch_model.bin"
    torch.save(tensors, file, _use_new_zipfile_serialization=not old_format)
    assert_same(read_weights(tmp_path), tensors)
    intact = file.read_bytes()
    for damaged in (b"", intact[:-100], b"\xff" * 20 + intact[20:]):
        file.write_bytes(damaged)
        with refuses(CheckpointError, "pytorch_model.bin:", worded=False):  # torch's words
            read_weights(tmp_path)


def write_shards(tensors, folder, name, save):
    """Write a shard for each tensor; give the index and a shard."""
    stem, ending = name.rsplit(".", 1)
    shards = {each: f"{stem}-{number}.{ending}" for number, each in enumerate(tensors)}
    for each, shard in shards.items():
        save({each: tensors[each]}, folder / shard)
    index = folder / f"{name}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return index, folder / shards["b"]


def write_one(tensors, folder, name, save):
    save(tensors, folder / name)
    return (folder / name,)


def save_ours(tensors, path):
    write_safetensors(path, tensors)


def save_old_bin(tensors, path):
    torch.save(tensors, path, _use_new_zipfile_serialization=False)


FORMS = {
    "with a checksum": (write_one, "model.safetensors", save_ours),
    "safetensors": (write_one, "model.safetensors", safetensors.torch.save_file),
    "bin": (write_one, "pytorch_model.bin", torch.save),
    "old bin": (write_one, "pytorch_model.bin", save_old_bin),
    "shards of safetensors": (write_shards, "model.safetensors", safetensors.torch.save_file),
    "shards of bin": (write_shards, "pytorch_model.bin", torch.save),
}


@pytest.mark.filterwarnings("ignore")  # torch warns of formats that it does not know
@pytest.mark.parametrize("form", FORMS)
def test_random_damage_is_refused_in_one_line_or_leaves_tensors(tensors, tmp_path, form):
    """Where nothing holds a checksum, numbers may be others, and a header's names, too."""
    write, name, save = FORMS[form]
    for path in write(tensors, tmp_path, name, save):
        intact, num_refused = path.read_bytes(), 0
        assert_same(read_weights(tmp_path), tensors)
        for damaged in damages(intact, 60):
            path.write_bytes(damaged)
            try:
                found = read_weights(tmp_path)
            except CheckpointError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error)
                num_refused += 1
            else:
                assert all(type(tensor) is torch.Tensor for tensor in found.values())
                if form == "with a checksum" and CHECKSUM_KEY.encode() in damaged:
                    assert_same(found, tensors)
        assert num_refused > 30
        path.write_bytes(intact)
