"""The folder of a teacher's outputs: what it refuses, and what it finds damaged."""

import numpy as np
import pytest
from refusals import refuses

from bertsmith.distillation.cache_folder import load_array, open_cache, save_array
from bertsmith.errors import CheckpointError, ConfigError

FACTS = {"teacher": "one", "tokenizer": "its own", "precision": "float32", "hidden": False}


@pytest.mark.parametrize(("change", "part"), [
    ({"teacher": "two"}, "--cache"),
    ({"tokenizer": "another"}, "--cache"),
    ({"precision": "bfloat16"}, "--precision"),
    ({"hidden": True}, "--hidden-weight 0"),
])  # fmt: skip
def test_a_cache_of_something_else_is_refused(tmp_path, change, part):
    open_cache(tmp_path / "cache", FACTS)
    open_cache(tmp_path / "cache", FACTS)
    with refuses(ConfigError, f"{tmp_path / 'cache'}: ", part):
        open_cache(tmp_path / "cache", FACTS | change)


def test_a_cache_with_vectors_serves_where_none_are_wanted(tmp_path):
    open_cache(tmp_path, FACTS | {"hidden": True})
    open_cache(tmp_path, FACTS)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / ".manifest.json.1.tmp").write_text("{")  # left by a stopped write
    open_cache(tmp_path, FACTS)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "manifest.json").unlink()
    for manifest, place in ((None, f"{tmp_path}: "), ("{", "manifest.json")):
        if manifest is not None:
            (tmp_path / "manifest.json").write_text(manifest)
        with refuses(ConfigError, place, "--cache") as refused:
            open_cache(tmp_path, FACTS)
        assert "emove" not in str(refused.value)  # it is the user's own


def test_a_file_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("mine")
    with refuses(ConfigError, "file: not a cache of a teacher's outputs, but a file"):
        open_cache(tmp_path / "file", FACTS)


def test_any_damage_is_named(tmp_path):
    path, array = tmp_path / "outputs.npy", np.arange(100, dtype=np.float32)
    save_array(path, array)
    assert np.array_equal(load_array(path), array)
    whole = path.read_bytes()
    flipped = whole[:200] + bytes([whole[200] ^ 4]) + whole[201:]
    for content in (b"", bytes(4), whole[:-1], flipped):
        path.write_bytes(content)
        with refuses(CheckpointError, f"{path}: "):
            load_array(path)
