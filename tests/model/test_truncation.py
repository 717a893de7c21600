"""A truncated model is the same model with fewer layers, here and in transformers."""

from collections.abc import Callable

import pytest
import torch
import transformers
from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.head_pruning import prune_heads
from bertsmith.model.keep_layers import choose_layers, truncate_layers
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model


@pytest.mark.parametrize(
    "num_layers, num_kept, choice, expected",
    [
        # The layers that the released script of DistilBERT takes of BERT-base.
        (12, 6, "spread", [0, 2, 4, 7, 9, 11]),
        (6, 3, "spread", [0, 2, 5]),
        (24, 2, "spread", [0, 23]),
        (5, 1, "spread", [0]),
        (5, 5, "spread", [0, 1, 2, 3, 4]),
        (7, 3, "first", [0, 1, 2]),
        (7, 3, "last", [4, 5, 6]),
    ],
)
def test_the_layers_that_are_chosen(
    num_layers: int, num_kept: int, choice: str, expected: list[int]
) -> None:
    assert choose_layers(num_layers, num_kept, choice) == expected


def test_every_choice_is_rising_and_of_the_right_length() -> None:
    for num_layers in range(1, 25):
        for num_kept in range(1, num_layers + 1):
            chosen = choose_layers(num_layers, num_kept)
            assert chosen == sorted(set(chosen)) and len(chosen) == num_kept
            assert chosen[0] == 0 and chosen[-1] == (num_layers - 1 if num_kept > 1 else 0)


@pytest.mark.parametrize("num_kept", [0, 8, -1])
def test_more_layers_than_there_are_or_none(num_kept: int) -> None:
    with pytest.raises(ConfigError, match=f"found {num_kept}; the model has 1 to 7"):
        choose_layers(7, num_kept)


@pytest.mark.parametrize("keep", [[], [0, 0], [2, 1], [0, 5], [-1]])
def test_layers_that_cannot_be_kept(small_model: Callable[..., BertModel], keep: list[int]) -> None:
    with pytest.raises(ConfigError, match="layers 0 to 4, rising, each once"):
        truncate_layers(small_model(num_hidden_layers=5), keep)


def test_transformers_without_these_layers_computes_the_same(
    small_model: Callable[..., BertModel], padded_inputs: dict[str, Tensor], tmp_path
) -> None:
    model = small_model("classify", num_labels=3, num_hidden_layers=5)
    model.id2label = {0: "a", 1: "b", 2: "c"}
    model.task_settings = {"task": "classify", "pairs": False}
    save_model(model, tmp_path / "whole")
    save_model(truncate_layers(model, [0, 3, 4]), tmp_path / "part")
    whole = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "whole").eval()
    layers = whole.bert.encoder.layer
    whole.bert.encoder.layer = torch.nn.ModuleList(layers[i] for i in (0, 3, 4))
    part = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "part").eval()
    ours = load_model(tmp_path / "part")
    assert ours.config.num_hidden_layers == part.config.num_hidden_layers == 3
    assert ours.id2label == model.id2label and ours.task_settings == model.task_settings
    with torch.no_grad():
        expected = whole(**padded_inputs).logits
        torch.testing.assert_close(part(**padded_inputs).logits, expected, rtol=0, atol=0)
        begun = padded_inputs["attention_mask"][:, 0] == 1  # theirs reads padding in the others
        found = ours(**padded_inputs).logits
        torch.testing.assert_close(found[begun], expected[begun], rtol=1e-5, atol=1e-5)


def test_the_model_itself_stays_as_it_was(small_model: Callable[..., BertModel]) -> None:
    model = small_model(num_hidden_layers=5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    smaller = truncate_layers(model, [1])
    with torch.no_grad():
        for parameter in smaller.parameters():
            parameter.zero_()
    assert model.config.num_hidden_layers == len(model.layers) == 5
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_pruned_heads_go_with_their_layers(small_model: Callable[..., BertModel]) -> None:
    model = prune_heads(small_model(num_hidden_layers=5), {1: [0], 3: [1, 2]})
    smaller = truncate_layers(model, [0, 3, 4])
    assert smaller.config.pruned_heads == {1: [1, 2]}
    assert [layer.attention.num_heads for layer in smaller.layers] == [3, 1, 3]
