"""Weights whose names a wrapper has lengthened are read, with a warning; half of them are not."""

import pytest
import safetensors.torch
from refusals import refuses
from tiny_models import assert_same_weights, save_tiny_of

from bertsmith.errors import BertsmithWarning, CheckpointError
from bertsmith.model.loading import load_model

FAMILIES = ["bert", "roberta", "distilbert", "electra", "albert", "modernbert"]


def rename(folder, change):
    file = folder / "model.safetensors"
    tensors = {change(name): x for name, x in safetensors.torch.load_file(file).items()}
    safetensors.torch.save_file(tensors, file, {"format": "pt"})


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod."])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_of_all_weights_is_taken_off(family, prefix, tmp_path):
    for heads in (("masked_lm",), ("classify",), ()):
        if (family, prefix, heads) == ("modernbert", "model.", ()):
            continue  # as usual
        labels = 2 if heads == ("classify",) else None
        folder = save_tiny_of(tmp_path / "-".join(heads), family, heads, num_labels=labels)
        expected = load_model(folder)
        rename(folder, lambda name: prefix + name)
        with pytest.warns(BertsmithWarning) as given:
            found = load_model(folder)
        assert any(repr(prefix) in str(warning.message) for warning in given)
        assert_same_weights(found, expected)
        assert found.load_report.missing == found.load_report.unused == ()


def test_a_prefix_of_some_weights_is_named(tmp_path):
    folder = save_tiny_of(tmp_path, "bert", ("classify",), num_labels=2)
    rename(folder, lambda name: name if "classifier" in name else f"encoder.{name}")
    with refuses(CheckpointError, str(folder), "'encoder.'", "classifier.weight"):
        load_model(folder)
