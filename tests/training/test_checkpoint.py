"""Checkpoints: whole or not at all, the last ones kept, damage found and named."""

import shutil
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from limits import file_size_limit
from refusals import refuses
from small_workers import small_model

from bertsmith.errors import CheckpointError, InputError
from bertsmith.model.saving import save_model
from bertsmith.system.files import atomic_dir
from bertsmith.training.checkpoint import (
    STATE_FILE,
    TENSORS_FILE,
    TrainingState,
    clear_leftovers,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)

IDENTITY = {"batch_size": 4, "optim": {"learning_rate": 0.1}}


def save(directory, step, keep=2, size=7, kind=TrainingState):
    state = kind(IDENTITY, step, 1.5 * step, real_tokens=11)
    write = partial(save_model, small_model("masked_lm"))
    return save_checkpoint(directory, write, {"m/x": torch.ones(size)}, state, keep)


def test_the_last_ones_are_kept_in_order_of_steps(tmp_path):
    for step in (5, 90, 1000, 123_456_789):
        save(tmp_path, step)
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["step-00001000", "step-123456789"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_write_that_fails_leaves_the_earlier_ones(tmp_path):
    first = save(tmp_path, 1)
    before = (first / TENSORS_FILE).read_bytes()
    with refuses(InputError, "step-00000002", worded=False), file_size_limit(200_000):
        save(tmp_path, 2, size=90_000)
    with pytest.raises(InputError), file_size_limit(200_000):
        save(tmp_path, 1, size=90_000)
    assert list_checkpoints(tmp_path) == [first]
    assert (first / TENSORS_FILE).read_bytes() == before
    found = load_checkpoint(first)
    assert found.state == TrainingState(IDENTITY, 1, 1.5, real_tokens=11)
    assert found.tensors["m/x"].tolist() == [1.0] * 7
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


@pytest.mark.parametrize("name", ["model.safetensors", TENSORS_FILE, STATE_FILE])
def test_damage_is_found_and_named(tmp_path, name):
    path = save(tmp_path, 7)
    content = (path / name).read_bytes()
    # The last digit of a JSON file or the last bit of a weight.
    place = max(i for i, byte in enumerate(content) if chr(byte).isalnum())
    altered = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for damaged in (altered, content[: len(content) // 2], None):
        (path / name).unlink() if damaged is None else (path / name).write_bytes(damaged)
        with refuses(CheckpointError, "step-00000007: ", name):
            load_checkpoint(path)


@pytest.mark.parametrize("content", ["[]", "7", '"text"', "{}"])
def test_a_state_that_is_other_json_is_damage(tmp_path, content):
    path = save(tmp_path, 7)
    (path / STATE_FILE).write_text(content)
    with refuses(CheckpointError, "step-00000007: ", STATE_FILE):
        load_checkpoint(path)


@dataclass
class LaterState(TrainingState):
    epochs: int = 0


def test_a_checkpoint_of_another_version_is_named(tmp_path):
    path = save(tmp_path, 7, kind=LaterState)
    with refuses(CheckpointError, f"step-00000007/{STATE_FILE}"):
        load_checkpoint(path)


def test_leftovers_of_a_killed_process_go(tmp_path):
    kept = save(tmp_path, 7)
    for name in (".step-00000009.abc.tmp", ".step-00000003.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"half")
    with atomic_dir(tmp_path / "step-00000010") as folder:  # still written to
        (folder / "model.safetensors").write_bytes(b"half")
        clear_leftovers(tmp_path)
        assert (folder / "model.safetensors").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [kept.name, "step-00000010"]
    kept.rename(tmp_path / f".{kept.name}.abcdefgh.old")  # killed while the step was saved again
    clear_leftovers(tmp_path)
    assert kept.is_dir()


def test_an_unfinished_checkpoint_whose_removal_was_killed_gets_no_name(tmp_path, monkeypatch):
    kept = save(tmp_path, 7)
    (tmp_path / ".step-00000009.abcdefgh.tmp").mkdir()
    (tmp_path / ".step-00000009.abcdefgh.tmp" / "model.safetensors").write_bytes(b"half")
    with monkeypatch.context() as context:
        context.setattr(shutil, "rmtree", lambda path: None)  # as if killed before it
        clear_leftovers(tmp_path)
    for _ in range(2):
        clear_leftovers(tmp_path)
        assert list_checkpoints(tmp_path) == [kept]
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]
