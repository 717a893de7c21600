"""A pruned model computes what the whole one does with these heads masked, and is smaller."""

import json

import pytest
import torch
import transformers

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import prune_heads, zero_heads

PRUNED = {0: [1], 1: [0, 4, 2]}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def whole(small_model):
    """Five heads of 7 in each of two layers."""
    return small_model("masked_lm", hidden_size=35, num_attention_heads=5)


def their_output(folder, inputs):
    """The logits of transformers' model of the folder with the columns of `PRUNED` zeroed."""
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        for layer, heads in PRUNED.items():
            dense = theirs.bert.encoder.layer[layer].attention.output.dense
            dense.weight.view(35, 5, 7)[:, heads] = 0.0
        return theirs(**inputs).logits


def test_the_folder_opens_again_and_equals_masked_transformers(whole, padded_inputs, tmp_path):
    save_model(whole, tmp_path / "whole")
    save_model(prune_heads(whole, PRUNED), tmp_path / "pruned")
    save_model(zero_heads(whole, PRUNED), tmp_path / "silent")
    expected = their_output(tmp_path / "whole", padded_inputs)
    real = padded_inputs["attention_mask"].bool()
    for name in ("pruned", "silent"):
        with torch.no_grad():
            logits = load_model(tmp_path / name)(**padded_inputs).logits
        torch.testing.assert_close(logits[real], expected[real], **CLOSE)
        assert (logits - whole(**padded_inputs).logits)[real].abs().max() > 0.1
    silent = transformers.BertForMaskedLM.from_pretrained(tmp_path / "silent").eval()
    with torch.no_grad():
        theirs = silent(**padded_inputs).logits
    torch.testing.assert_close(theirs[real], expected[real], rtol=0, atol=0)


def test_matrices_are_smaller_and_the_folder_says_so_as_transformers_4(whole, tmp_path):
    pruned = prune_heads(whole, PRUNED)
    for layer, left in zip(pruned.layers, (4, 2), strict=True):
        assert layer.attention.qkv.weight.shape == (3 * left * 7, 35)
        assert layer.attention.output.weight.shape == (35, left * 7)
    save_model(whole, tmp_path)
    assert "pruned_heads" not in json.loads((tmp_path / "config.json").read_text())
    save_model(pruned, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["pruned_heads"] == {"0": [1], "1": [0, 2, 4]}
    assert settings["num_attention_heads"] == 5
    with pytest.raises((RuntimeError, ValueError)):
        transformers.BertForMaskedLM.from_pretrained(tmp_path)
    for found in (["0"], {"x": [0]}, {"0": 1}, {"0": ["a"]}, "0", {"0": [1, 1]}):
        (tmp_path / "config.json").write_text(json.dumps(settings | {"pruned_heads": found}))
        with pytest.raises(CheckpointError, match=r"config\.json: .*pruned_heads"):
            load_model(tmp_path)


def test_pruning_twice_is_pruning_at_once(whole):
    twice = prune_heads(prune_heads(whole, {1: [4]}), {0: [1], 1: [2, 0, 4]})
    once = prune_heads(whole, PRUNED)
    assert twice.config == once.config
    for name, value in once.state_dict().items():
        torch.testing.assert_close(twice.state_dict()[name], value, rtol=0, atol=0)


def test_attention_weights_are_those_of_the_heads_that_are_left(whole, padded_inputs):
    with torch.no_grad():
        expected = whole(**padded_inputs, output_attentions=True).attentions
        found = prune_heads(whole, {0: [1, 3]})(**padded_inputs, output_attentions=True).attentions
    torch.testing.assert_close(found[0], expected[0][:, [0, 2, 4]], **CLOSE)
    assert found[1].shape[1] == 5


def test_heads_that_cannot_be_pruned(whole):
    allowed = r"found \[5\] in layer 0; allowed are heads 0 to 4, each once, in layers 0 to 1"
    for heads, message in (
        ({0: [5]}, allowed),
        ({0: [-1]}, "in layer 0"),
        ({2: [0]}, "in layer 2"),
        ({1: [0, 1, 2, 3, 4]}, "all 5 heads of layer 1. Leave each layer one"),
    ):
        for change in (prune_heads, zero_heads):
            with pytest.raises(ConfigError, match=message):
                change(whole, heads)
