"""A smaller model computes what the whole one does without its parts, here and in transformers."""

import json

import torch
import transformers
from refusals import refuses
from tiny_models import OTHER, SPECIAL_TOKENS, tiny_model, tiny_tokenizer

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.layer_choice import choose_layers
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import trim_vocabulary, truncate_layers
from bertsmith.tokenization.auto import load_tokenizer

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
    model = small_model("masked_lm", num_hidden_layers=3)
    with refuses(ConfigError, "num_layers: found 8", "1 to 7"):
        choose_layers(7, 8)
    for keep, found in (([], "nothing"), ([0, 0], "0, 0"), ([0, 3], "0, 3")):
        with refuses(ConfigError, f"layers: found '{found}'", "0 to 2"):
            truncate_layers(model, keep)


def test_a_model_without_some_of_its_heads_is_refused(small_model, tmp_path):
    """transformers 4 pruned them; 5 writes and opens no such folder."""
    save_model(small_model("masked_lm"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert "pruned_heads" not in config
    (tmp_path / "config.json").write_text(json.dumps(config | {"pruned_heads": {}}))
    load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"pruned_heads": {"0": [1]}}))
    with refuses(CheckpointError, f"{tmp_path / 'config.json'}: ", "pruned_heads"):
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
