"""Weights whose names a wrapper has lengthened are read, with a warning; half of them are not."""

import re

import pytest
import safetensors.torch
import torch
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


@pytest.mark.parametrize(("shorter", "longer"), [
    (r"layer\.(\d)\.", r"layer.\1._orig_mod."),
    (r"layer\.(\d)\.", r"layer.\1._fsdp_wrapped_module._checkpoint_wrapped_module."),
    (r"^bert\.", "bert._fsdp_wrapped_module."),
    (r"^bert\.encoder\.", "bert.module.encoder."),
    (r"^(bert\.encoder\.)?", r"_fsdp_wrapped_module.\1_fsdp_wrapped_module."),
    (r"dense\.", "dense._orig_mod."),
])  # fmt: skip
def test_wrappers_of_single_modules_are_taken_out(shorter, longer, tmp_path):
    folder = save_tiny_of(tmp_path, "bert", ("classify",), num_labels=2)
    expected = load_model(folder)
    rename(folder, lambda name: re.sub(shorter, longer, name))
    with pytest.warns(BertsmithWarning) as given:
        found = load_model(folder)
    assert any("without its wrapper" in str(warning.message) for warning in given)
    assert_same_weights(found, expected)
    assert found.load_report.missing == found.load_report.unused == ()


def test_a_weight_that_is_there_with_and_without_a_wrapper_is_refused(tmp_path):
    folder = save_tiny_of(tmp_path, "bert", ())
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    name = next(name for name in tensors if "encoder" in name)
    wrapped = name.replace("encoder.", "encoder._orig_mod.")
    tensors[wrapped] = tensors[name].clone()
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with refuses(CheckpointError, str(folder), name, wrapped):
        load_model(folder)


def test_adapters_that_are_not_merged_are_refused(tmp_path):
    folder = save_tiny_of(tmp_path / "m", "bert", ())
    rename(folder, lambda name: f"base_model.model.{name}".replace("query.", "query.base_layer."))
    with refuses(CheckpointError, str(folder), "query.base_layer.", "merge_and_unload()"):
        load_model(folder)
    (folder / "model.safetensors").unlink()
    (folder / "adapter_config.json").write_text("{}")
    for _ in range(2):  # beside a config.json, and without one
        with refuses(CheckpointError, str(folder), "adapter", "merge_and_unload()"):
            load_model(folder)
        (folder / "config.json").unlink(missing_ok=True)


def test_weights_by_other_names_are_told_of(tmp_path):
    folder = save_tiny_of(tmp_path, "bert", ())
    rename(folder, lambda name: name.replace("encoder.layer.", "blocks."))
    with refuses(
        CheckpointError, "32 stored weights have other names, such as blocks.0.", worded=False
    ):
        load_model(folder)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "weights"])
def test_weights_below_a_key_of_a_training_program_are_read(tmp_path, key):
    folder = save_tiny_of(tmp_path, "bert", ("classify",), num_labels=2)
    expected = load_model(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    state = {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 0.1}]}
    saved = {"epoch": 3, "step": torch.tensor(7), "optimizer_states": [state], "optimizer": state}
    others = {"ema": tensors} if key != "weights" else {}
    torch.save({**saved, **others, key: tensors}, folder / "pytorch_model.bin")
    with pytest.warns(BertsmithWarning) as given:
        found = load_model(folder)
    assert repr(key) in str(given[0].message)
    assert_same_weights(found, expected)


def test_weights_below_several_keys_are_refused(tmp_path):
    folder = save_tiny_of(tmp_path, "bert", ())
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({"student": tensors, "ema": tensors}, folder / "pytorch_model.bin")
    with refuses(CheckpointError, str(folder), "'student' and 'ema'"):
        load_model(folder)
