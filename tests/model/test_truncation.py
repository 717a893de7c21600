"""A truncated model is the same model with fewer layers, here and in transformers."""

import pytest
import torch
import transformers

from bertsmith.errors import ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import choose_layers, truncate_layers


def test_the_layers_that_are_chosen():
    for num_layers, num_kept, choice, expected in (
        # The layers that the released script of DistilBERT takes of BERT-base.
        (12, 6, "spread", [0, 2, 4, 7, 9, 11]),
        (6, 3, "spread", [0, 2, 5]),
        (5, 1, "spread", [0]),
        (7, 3, "first", [0, 1, 2]),
        (7, 3, "last", [4, 5, 6]),
    ):
        assert choose_layers(num_layers, num_kept, choice) == expected
    for num_layers in range(1, 25):
        for num_kept in range(1, num_layers + 1):
            chosen = choose_layers(num_layers, num_kept)
            assert chosen == sorted(set(chosen)) and len(chosen) == num_kept
            assert chosen[0] == 0 and chosen[-1] == (num_layers - 1 if num_kept > 1 else 0)


def test_layers_that_cannot_be_kept(small_model):
    for num_kept in (0, 8, -1):
        with pytest.raises(ConfigError, match=f"found {num_kept}; the model has 1 to 7"):
            choose_layers(7, num_kept)
    for keep in ([], [0, 0], [2, 1], [0, 5], [-1]):
        with pytest.raises(ConfigError, match="layers 0 to 4, rising, each once"):
            truncate_layers(small_model(num_hidden_layers=5), keep)


def test_transformers_without_these_layers_computes_the_same(small_model, padded_inputs, tmp_path):
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
