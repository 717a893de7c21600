"""The state of a model's folder changes with each file of the model."""

import pytest

from bertsmith.serving.folder_state import folder_state

pytestmark = pytest.mark.same_on_all_computers


@pytest.mark.parametrize("name", [
    "model.safetensors", "1_Pooling/config.json", "members/seed-2/model.safetensors",
    "members/seed-2/1_Pooling/config.json",
])  # fmt: skip
def test_a_change_of_one_file_of_the_model_is_seen(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"old")
    before = folder_state(tmp_path)
    assert [path for path, _, _ in before] == [name]
    file.write_bytes(b"longer")
    assert folder_state(tmp_path) != before


def test_checkpoints_of_a_run_are_not_part_of_the_model(tmp_path):
    before = folder_state(tmp_path)
    checkpoint = tmp_path / "checkpoints" / "step-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"new")
    assert folder_state(tmp_path) == before
