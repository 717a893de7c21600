"""A model that knows fewer tokens gives the same for texts of these tokens, to the bit."""

import pytest
import torch
import transformers
from tiny_models import BAD, GOOD, OTHER, SPECIAL_TOKENS, tiny_model, tiny_tokenizer

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import trim_vocabulary
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

TEXTS = ["a lovely film .", "the story was very good", "films and story"]
KEPT = [*SPECIAL_TOKENS, "good", "lovely", *OTHER]


def ids_of(tokenizer, tokens):
    return [tokenizer.vocab.index(token) for token in tokens]


def outputs(model, tokenizer, text):
    encoding = tokenizer.encode(text)
    with torch.no_grad():
        return encoding, model(torch.tensor([encoding.ids]))


@pytest.mark.parametrize("padding", [0, 3])
def test_outputs_of_texts_whose_pieces_are_kept(tmp_path, padding):
    tokenizer = tiny_tokenizer()
    # More rows than tokens, as many checkpoints have.
    model = tiny_model("masked_lm", vocab_size=tokenizer.vocab_size + padding)
    torch.nn.init.normal_(model.heads["masked_lm"].bias)
    kept = ids_of(tokenizer, KEPT)
    trimmed, its_tokenizer = trim_vocabulary(model, tokenizer, kept)
    save_model(trimmed, tmp_path, its_tokenizer)
    smaller, smaller_tokenizer = load_model(tmp_path), load_tokenizer(tmp_path)
    assert smaller.config.vocab_size == smaller_tokenizer.vocab_size == len(KEPT)
    assert smaller_tokenizer.vocab == KEPT
    assert smaller_tokenizer.settings() == tokenizer.settings()
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        encoding, expected = outputs(model, tokenizer, text)
        found_encoding, found = outputs(smaller, smaller_tokenizer, text)
        assert found_encoding.tokens == encoding.tokens
        assert found_encoding.offsets == encoding.offsets
        assert torch.equal(found.last_hidden_state, expected.last_hidden_state)
        torch.testing.assert_close(found.logits, expected.logits[..., kept], rtol=1e-6, atol=1e-6)
        inputs = their_tokenizer(text, return_tensors="pt")
        assert inputs["input_ids"][0].tolist() == found_encoding.ids
        with torch.no_grad():
            logits = theirs(**inputs).logits
        torch.testing.assert_close(logits, found.logits, rtol=1e-5, atol=1e-5)


def test_padding_and_added_tokens_are_found_at_their_new_places():
    vocab = [*GOOD, *BAD, *SPECIAL_TOKENS, "a"]
    added = [*map(AddedToken, SPECIAL_TOKENS), AddedToken("<x>", special=False)]
    tokenizer = WordPieceTokenizer(vocab, added_tokens=added)
    model = tiny_model(vocab_size=tokenizer.vocab_size, pad_token_id=tokenizer.pad_id)
    kept = [*SPECIAL_TOKENS, "a", "<x>"]
    smaller, smaller_tokenizer = trim_vocabulary(model, tokenizer, ids_of(tokenizer, kept))
    assert smaller_tokenizer.vocab == kept
    assert smaller.config.pad_token_id == smaller_tokenizer.pad_id == 0
    assert smaller.embeddings.word.padding_idx == 0
    assert smaller_tokenizer.encode("a <x>").tokens == ["[CLS]", "a", "<x>", "[SEP]"]
    assert torch.equal(smaller.embeddings.word.weight[-1], model.embeddings.word.weight[-1])
    assert smaller.embeddings.word.weight.requires_grad
    with pytest.raises(ConfigError, match="lack the added token '<x>'"):
        trim_vocabulary(model, tokenizer, ids_of(tokenizer, kept[:-1]))


def test_what_cannot_be_kept():
    tokenizer, model = tiny_tokenizer(), tiny_model()
    with pytest.raises(ConfigError, match=r"lack the added token .\[MASK\]"):
        trim_vocabulary(model, tokenizer, [0, 1, 2, 3, 5])
    with pytest.raises(ConfigError, match="allowed are ids 0 to 19"):
        trim_vocabulary(model, tokenizer, range(21))
    with pytest.raises(CheckpointError, match="20 tokens, the embedding 19"):
        trim_vocabulary(tiny_model(vocab_size=19), tokenizer, range(20))
