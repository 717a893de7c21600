"""A smaller model computes what the whole one does without its parts, here and in transformers."""

import json

import pytest
import torch
import transformers
from refusals import refuses
from tiny_models import OTHER, SPECIAL_TOKENS, tiny_model, tiny_tokenizer

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import (
    choose_layers,
    prune_heads,
    trim_vocabulary,
    truncate_layers,
    zero_heads,
)
from bertsmith.tokenization.auto import load_tokenizer

PRUNED = {0: [1], 1: [0, 4, 2]}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def test_the_layers_that_are_chosen():
    for num_layers, num_kept, choice, expected in (
        # The layers that the released script of DistilBERT takes of BERT-base.
        (12, 6, "spread", [0, 2, 4, 7, 9, 11]),
        (5, 1, "spread", [0]),
        (7, 3, "first", [0, 1, 2]),
        (7, 3, "last", [4, 5, 6]),
    ):
        assert choose_layers(num_layers, num_kept, choice) == expected


def test_parts_that_there_are_not(small_model):
    model = small_model("masked_lm", hidden_size=35, num_attention_heads=5, num_hidden_layers=3)
    with refuses(ConfigError, "num_layers: found 8", "1 to 7"):
        choose_layers(7, 8)
    for keep, found in (([], "nothing"), ([0, 0], "0, 0"), ([0, 3], "0, 3")):
        with refuses(ConfigError, f"layers: found {found}", "0 to 2"):
            truncate_layers(model, keep)
    for heads, *parts in (
        ({0: [5]}, "[5] in layer 0", "heads 0 to 4", "layers 0 to 2"),
        ({3: [0]}, "[0] in layer 3", "layers 0 to 2"),
        ({1: [0, 1, 2, 3, 4]}, "5 heads of layer 1"),
    ):
        for change in (prune_heads, zero_heads):
            with refuses(ConfigError, "pruned_heads: found", *parts):
                change(model, heads)


@pytest.fixture
def whole(small_model):
    """Five heads of 7 in each of two layers."""
    return small_model("masked_lm", hidden_size=35, num_attention_heads=5)


def test_without_heads_a_model_equals_masked_transformers(whole, padded_inputs, tmp_path):
    pruned = prune_heads(prune_heads(whole, {1: [4]}), {0: [1], 1: [2, 0, 4]})  # in two steps
    save_model(whole, tmp_path / "whole")
    save_model(pruned, tmp_path / "pruned")
    save_model(zero_heads(whole, PRUNED), tmp_path / "silent")
    theirs, silent = (
        transformers.BertForMaskedLM.from_pretrained(tmp_path / name).eval()
        for name in ("whole", "silent")
    )
    real = padded_inputs["attention_mask"].bool()
    with torch.no_grad():
        for layer, heads in PRUNED.items():
            dense = theirs.bert.encoder.layer[layer].attention.output.dense
            dense.weight.view(35, 5, 7)[:, heads] = 0.0
        expected = theirs(**padded_inputs).logits[real]
        before = whole(**padded_inputs).logits[real]
        for name in ("pruned", "silent"):
            logits = load_model(tmp_path / name)(**padded_inputs).logits[real]
            torch.testing.assert_close(logits, expected, **CLOSE)
            assert (logits - before).abs().max() > 0.1
        torch.testing.assert_close(silent(**padded_inputs).logits[real], expected, rtol=0, atol=0)


def test_pruned_matrices_are_smaller_and_the_folder_says_so_as_transformers_4(whole, tmp_path):
    pruned = prune_heads(whole, PRUNED)
    for layer, left in zip(pruned.layers, (4, 2), strict=True):
        assert layer.attention.qkv.weight.shape == (3 * left * 7, 35)
        assert layer.attention.output.weight.shape == (35, left * 7)
    save_model(pruned, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["pruned_heads"] == {"0": [1], "1": [0, 2, 4]}
    assert settings["num_attention_heads"] == 5
    with pytest.raises((RuntimeError, ValueError)):  # transformers 5
        transformers.BertForMaskedLM.from_pretrained(tmp_path)
    for found in (["0"], {"x": [0]}, {"0": ["a"]}, {"0": [1, 1]}):
        (tmp_path / "config.json").write_text(json.dumps(settings | {"pruned_heads": found}))
        with refuses(CheckpointError, "config.json: pruned_heads"):
            load_model(tmp_path)


def test_a_model_of_fewer_tokens_gives_the_same_for_texts_of_these(tmp_path):
    tokenizer = tiny_tokenizer()
    # More rows than tokens, as many checkpoints have.
    model = tiny_model("masked_lm", vocab_size=tokenizer.vocab_size + 3)
    torch.nn.init.normal_(model.heads["masked_lm"].bias)
    tokens = [*SPECIAL_TOKENS, "good", "lovely", *OTHER]
    kept = [tokenizer.vocab.index(token) for token in tokens]
    trimmed, trimmed_tokenizer = trim_vocabulary(model, tokenizer, kept)
    save_model(trimmed, tmp_path, trimmed_tokenizer)
    smaller, its_tokenizer = load_model(tmp_path), load_tokenizer(tmp_path)
    assert smaller.config.vocab_size == len(tokens)
    assert its_tokenizer.vocab == tokens
    assert its_tokenizer.settings() == tokenizer.settings()
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("a lovely film .", "the story was very good", "films and story"):
        before, after = tokenizer.encode(text), its_tokenizer.encode(text)
        assert (after.tokens, after.offsets) == (before.tokens, before.offsets)
        inputs = their_tokenizer(text, return_tensors="pt")
        assert inputs["input_ids"][0].tolist() == after.ids
        with torch.no_grad():
            expected, found = model(torch.tensor([before.ids])), smaller(torch.tensor([after.ids]))
            logits = theirs(**inputs).logits
        assert torch.equal(found.last_hidden_state, expected.last_hidden_state)
        torch.testing.assert_close(found.logits, expected.logits[..., kept], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(logits, found.logits, **CLOSE)


def test_vocabularies_that_cannot_be_trimmed():
    tokenizer, model = tiny_tokenizer(), tiny_model()
    with refuses(ConfigError, "ids:", "'[MASK]'"):
        trim_vocabulary(model, tokenizer, [0, 1, 2, 3, 5])
    with refuses(ConfigError, "ids: found 21", "ids 0 to 19"):
        trim_vocabulary(model, tokenizer, range(21))
    with refuses(CheckpointError, "20 tokens", "embedding 19"):
        trim_vocabulary(tiny_model(vocab_size=19), tokenizer, range(20))
