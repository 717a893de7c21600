"""A config.json that an editor or another program has changed: one clear error, or a model."""

import json

import pytest
from damage import ODD_VALUES
from tiny_models import save_tiny, save_tiny_of

from bertsmith.errors import CheckpointError
from bertsmith.model.families import FAMILIES
from bertsmith.model.model_folder import read_folder
from bertsmith.system.checksums import SUMS_FILE

MORE_KEYS = ("id2label", "label2id", "num_labels", "problem_type", "bertsmith", "pruned_heads")


@pytest.mark.parametrize("family", [*FAMILIES, "classifier"])
def test_odd_values_are_refused_in_one_line_or_make_a_model(tmp_path, family):
    if family == "classifier":
        save_tiny(tmp_path, "classify", labels=("neg", "pos"))
    else:
        save_tiny_of(tmp_path, family)
    (tmp_path / SUMS_FILE).unlink()  # so that no warning tells of the change
    path = tmp_path / "config.json"
    intact = json.loads(path.read_text())
    refused = set()
    for key in sorted({*intact, *MORE_KEYS}):
        for value in ODD_VALUES:
            path.write_text(json.dumps({**intact, key: value}))
            try:
                folder = read_folder(tmp_path)
                assert folder.config.hidden_size and isinstance(folder.labels, dict)
            except CheckpointError as error:
                told = str(error)
                assert str(tmp_path) in told and "\n" not in told and len(told) < 500, told
                refused.add(key)
    assert {"model_type", "architectures", "vocab_size", "id2label", "bertsmith"} <= refused
