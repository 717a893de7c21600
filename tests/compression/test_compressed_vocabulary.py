"""A vocabulary of the pieces that texts use cuts these texts as the whole one does."""

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from tiny_models import SPECIAL_TOKENS
from tiny_tokenizers import TEXT, TINY

from bertsmith.compression.settings import VocabularySettings
from bertsmith.compression.vocabulary import count_text_tokens, read_texts, select_tokens
from bertsmith.errors import ConfigError, InputError, as_flags
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.trimming import trim_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

WORDS = st.text("abcd", min_size=1, max_size=7)
PIECES = st.lists(
    st.tuples(st.booleans(), st.text("abc", min_size=1, max_size=4)), min_size=3, unique=True
).map(lambda drawn: ["##" * continues + piece for continues, piece in drawn])


@settings(max_examples=25)
@given(pieces=PIECES, words=st.lists(WORDS, max_size=20), keep=st.booleans())
def test_words_of_the_texts_keep_their_pieces_and_unknown_ones_stay_unknown(pieces, words, keep):
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *pieces])
    counts = sum(count_text_tokens(tokenizer, words))
    smaller = trim_tokenizer(tokenizer, select_tokens(tokenizer, counts, keep_characters=keep))
    for word in words:
        assert smaller.encode(word).tokens == tokenizer.encode(word).tokens


def test_the_column_of_texts_is_chosen_by_the_option_of_the_command(tmp_path):
    table = tmp_path / "tickets.csv"
    table.write_text("Subject,Body\na,the film\n")
    asked = VocabularySettings((str(table),), texts_column="Body")
    assert list(read_texts(asked)) == ["the film"]
    with pytest.raises(InputError) as caught:
        list(read_texts(VocabularySettings((str(table),))))
    message = as_flags(caught.value.message)
    assert "--texts-column" in message and "--text-column" not in message


def test_of_an_unknown_word_the_pieces_that_were_found_count():
    """Without them it would be cut. The text does not have them, so they are counted apart."""
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "ab", "a", "##bc", "x"])
    counts, counts_in_unknown = count_text_tokens(tokenizer, ["abc x"])
    assert counts[tokenizer.unk_id] == 1 and counts.sum() == 2
    assert counts[5:].tolist() == [0, 0, 0, 1]
    assert counts_in_unknown[5:].tolist() == [1, 0, 0, 0]


def test_what_stays_in_any_case():
    added = [*map(AddedToken, SPECIAL_TOKENS), AddedToken("<new>", special=False)]
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "ab", "##ab", "a", "##a"], added_tokens=added)
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    counts[5] = 2
    for settings_, expected in (
        ({}, ["ab", "a", "##a", "<new>"]),
        ({"min_count": 3}, ["a", "##a", "<new>"]),
        ({"keep_characters": False}, ["ab", "<new>"]),
    ):
        kept = [tokenizer.vocab[id_] for id_ in select_tokens(tokenizer, counts, **settings_)]
        assert kept == [*SPECIAL_TOKENS, *expected]


@pytest.mark.parametrize("kind", ["byte-bpe", "unigram"])
@settings(max_examples=5)
@given(texts=st.lists(st.sampled_from(TEXT.split()) | st.text(max_size=5), max_size=9))
def test_texts_are_cut_as_before_by_other_kinds(kind, texts):
    tokenizer = TINY[kind]()
    counts = sum(count_text_tokens(tokenizer, texts))
    smaller = trim_tokenizer(tokenizer, select_tokens(tokenizer, counts, keep_characters=False))
    assert smaller.vocab_size < tokenizer.vocab_size
    for text in texts:
        before, after = tokenizer.encode(text), smaller.encode(text)
        assert (after.tokens, after.offsets) == (before.tokens, before.offsets)


@pytest.mark.parametrize("kind", ["byte-bpe", "unigram"])
def test_the_library_reads_what_was_trimmed(kind, tmp_path):
    tokenizer, text = TINY[kind](), "The river runs down, who knows it? 漢字"
    counts = sum(count_text_tokens(tokenizer, ["the river runs down"]))
    ids = select_tokens(tokenizer, counts)
    smaller = trim_tokenizer(tokenizer, ids)
    smaller.save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert smaller.encode(text).ids == theirs.encode(text).ids
    assert load_tokenizer(tmp_path).encode(text).ids == smaller.encode(text).ids
    with refuses(ConfigError, "'</s>'" if kind == "byte-bpe" else "<unk>"):
        trim_tokenizer(tokenizer, ids[5:])


def test_the_added_token_that_is_missing_is_named():
    added = [AddedToken("<a>"), AddedToken("<b>")]
    tokenizer = TINY["wordpiece"]()
    tokenizer = WordPieceTokenizer(tokenizer.vocab, added_tokens=added)
    with refuses(ConfigError, "'<b>'"):
        trim_tokenizer(tokenizer, range(tokenizer.token_to_id("<b>")))
    with refuses(ConfigError, "ids: found none"):
        trim_tokenizer(tokenizer, [])
