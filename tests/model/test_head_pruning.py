"""A pruned model computes what the whole one does with these heads masked, and is smaller."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.head_pruning import prune_heads, zero_heads
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model

PRUNED = {0: [1], 1: [0, 4, 2]}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def whole(small_model: Callable[..., BertModel]) -> BertModel:
    """Five heads of 7 in each of two layers."""
    return small_model("masked_lm", hidden_size=35, num_attention_heads=5)


def masked_output(model: BertModel, inputs: dict[str, Tensor], mask: Tensor) -> Tensor:
    """The last hidden state with each head's output multiplied by `mask`, [layers, heads]."""

    def by(layer: int) -> Callable[[torch.nn.Module, tuple[Tensor]], Tensor]:
        return lambda module, given: given[0] * mask[layer].repeat_interleave(7)

    hooks = [
        layer.attention.output.register_forward_pre_hook(by(number))
        for number, layer in enumerate(model.layers)
    ]
    output = model(**inputs).last_hidden_state
    for hook in hooks:
        hook.remove()
    return output


def their_output(folder: Path, inputs: dict[str, Tensor]) -> Tensor:
    """The logits of transformers' model of the folder with the columns of `PRUNED` zeroed."""
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        for layer, heads in PRUNED.items():
            dense = theirs.bert.encoder.layer[layer].attention.output.dense
            dense.weight.view(35, 5, 7)[:, heads] = 0.0
        return theirs(**inputs).logits


def test_pruned_is_masked(whole: BertModel, padded_inputs: dict[str, Tensor]) -> None:
    mask = torch.ones(2, 5)
    for layer, heads in PRUNED.items():
        mask[layer, heads] = 0.0
    with torch.no_grad():
        expected = masked_output(whole, padded_inputs, mask)
        pruned = prune_heads(whole, PRUNED)
        torch.testing.assert_close(pruned(**padded_inputs).last_hidden_state, expected, **CLOSE)
        silent = zero_heads(whole, PRUNED)
        torch.testing.assert_close(silent(**padded_inputs).last_hidden_state, expected, **CLOSE)
        changed = whole(**padded_inputs).last_hidden_state
    assert (changed - expected).abs().max() > 0.1


def test_the_folder_opens_again_and_equals_masked_transformers(
    whole: BertModel, padded_inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    save_model(whole, tmp_path / "whole")
    save_model(prune_heads(whole, PRUNED), tmp_path / "pruned")
    save_model(zero_heads(whole, PRUNED), tmp_path / "silent")
    expected = their_output(tmp_path / "whole", padded_inputs)
    real = padded_inputs["attention_mask"].bool()
    for name in ("pruned", "silent"):
        with torch.no_grad():
            logits = load_model(tmp_path / name)(**padded_inputs).logits
        torch.testing.assert_close(logits[real], expected[real], **CLOSE)
    silent = transformers.BertForMaskedLM.from_pretrained(tmp_path / "silent").eval()
    with torch.no_grad():
        theirs = silent(**padded_inputs).logits
    torch.testing.assert_close(theirs[real], expected[real], rtol=0, atol=0)


def test_matrices_are_smaller_and_the_folder_says_so_as_transformers_4(
    whole: BertModel, tmp_path: Path
) -> None:
    pruned = prune_heads(whole, PRUNED)
    assert [tuple(layer.attention.qkv.weight.shape) for layer in pruned.layers] == [
        (3 * 4 * 7, 35),
        (3 * 2 * 7, 35),
    ]
    assert [tuple(layer.attention.output.weight.shape) for layer in pruned.layers] == [
        (35, 4 * 7),
        (35, 2 * 7),
    ]
    gone = sum(value.numel() for value in whole.parameters()) - sum(
        value.numel() for value in pruned.parameters()
    )
    assert gone == 4 * (4 * 7 * 35 + 3 * 7)  # four heads: four matrices and three biases each
    save_model(pruned, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["pruned_heads"] == {"0": [1], "1": [0, 2, 4]}
    assert settings["num_attention_heads"] == 5
    with pytest.raises((RuntimeError, ValueError)):
        transformers.BertForMaskedLM.from_pretrained(tmp_path)


def test_a_whole_model_says_nothing_of_pruned_heads(whole: BertModel, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    assert "pruned_heads" not in json.loads((tmp_path / "config.json").read_text())


def test_pruning_twice_is_pruning_at_once(
    whole: BertModel, padded_inputs: dict[str, Tensor]
) -> None:
    twice = prune_heads(prune_heads(whole, {1: [4]}), {0: [1], 1: [2, 0, 4]})
    once = prune_heads(whole, PRUNED)
    assert twice.config == once.config
    for name, value in once.state_dict().items():
        torch.testing.assert_close(twice.state_dict()[name], value, rtol=0, atol=0)
    silent = zero_heads(prune_heads(whole, {1: [4]}), {0: [1], 1: [2, 0]})
    with torch.no_grad():
        torch.testing.assert_close(
            silent(**padded_inputs).logits, once(**padded_inputs).logits, **CLOSE
        )


def test_attention_weights_are_those_of_the_heads_that_are_left(
    whole: BertModel, padded_inputs: dict[str, Tensor]
) -> None:
    with torch.no_grad():
        expected = whole(**padded_inputs, output_attentions=True).attentions
        found = prune_heads(whole, {0: [1, 3]})(**padded_inputs, output_attentions=True).attentions
    torch.testing.assert_close(found[0], expected[0][:, [0, 2, 4]], **CLOSE)
    assert found[1].shape[1] == 5


def test_a_pruned_model_learns(whole: BertModel, padded_inputs: dict[str, Tensor]) -> None:
    pruned = prune_heads(whole, PRUNED).train()
    pruned(**padded_inputs).logits.square().mean().backward()
    attention = pruned.layers[1].attention
    assert isinstance(attention, SelfAttention)
    assert attention.qkv.weight.grad is not None and attention.qkv.weight.grad.abs().sum() > 0
    assert all(value.grad is None for value in whole.parameters())


@pytest.mark.parametrize(
    "heads, message",
    [
        (
            {0: [5]},
            r"found \[5\] in layer 0; allowed are heads 0 to 4, each once, in layers 0 to 1",
        ),
        ({0: [-1]}, "in layer 0"),
        ({2: [0]}, "in layer 2"),
        ({1: [0, 1, 2, 3, 4]}, "all 5 heads of layer 1. Leave each layer one"),
    ],
)
def test_heads_that_cannot_be_pruned(
    whole: BertModel, heads: dict[int, list[int]], message: str
) -> None:
    for change in (prune_heads, zero_heads):
        with pytest.raises(ConfigError, match=message):
            change(whole, heads)


def test_layers_that_share_their_attention_cannot_lose_heads_alone(whole: BertModel) -> None:
    whole.layers[1].attention = whole.layers[0].attention
    with pytest.raises(ConfigError, match="share their attention"):
        prune_heads(whole, {0: [1]})


@pytest.mark.parametrize("found", [["0"], {"x": [0]}, {"0": 1}, {"0": ["a"]}, "0"])
def test_a_damaged_list_in_the_folder(whole: BertModel, tmp_path: Path, found: object) -> None:
    save_model(whole, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"pruned_heads": found}))
    with pytest.raises(CheckpointError, match=r"config\.json: pruned_heads is "):
        load_model(tmp_path)


def test_heads_named_twice_in_a_config_are_refused() -> None:
    with pytest.raises(ConfigError, match="each once"):
        BertConfig(7, 6, 1, 3, 5, pruned_heads={0: [1, 1]})
