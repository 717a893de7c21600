"""Encoding many texts gives what the tokenizer gives for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.encoded_texts import as_pairs, encode_texts, max_text_length
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

WORDS = ["good", "bad", "a", "film", "un", "##seen", "##ly", ",", "."]
TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], model_max_length=64
)
TEXTS = st.text(st.sampled_from("goodbafilmunsey,. [MASK]"), max_size=80)


@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=5), st.integers(4, 40))
def test_equals_encoding_one_by_one(texts, max_length):
    encoded = encode_texts(TOKENIZER, texts, max_length)
    reference = [TOKENIZER.encode(text, pair, max_length=max_length) for text, pair in texts]
    assert [row.tolist() for row in encoded.ids] == [row.ids for row in reference]
    assert [row.tolist() for row in encoded.type_ids] == [row.type_ids for row in reference]
    assert list(encoded.num_cut) == [row.num_truncated for row in reference]
    assert encoded.num_truncated == sum(row.num_truncated > 0 for row in reference)
    assert encoded.lengths == [len(row.ids) for row in reference]


def test_texts_and_pairs_in_one_list():
    assert as_pairs(["a", ("b", "c")]) == [("a", None), ("b", "c")]
    with pytest.raises(InputError, match=r"texts\[1\]: found float nan.*Give a string"):
        as_pairs(["a", float("nan")])


@pytest.mark.parametrize("length", [-1, 3])
def test_a_tokenizer_whose_own_limit_leaves_no_room(length):
    tokenizer = WordPieceTokenizer(TOKENIZER.vocab, model_max_length=length)
    named = rf"tokenizer_config\.json: model_max_length is {length}; allowed are 4 tokens or more"
    with pytest.raises(CheckpointError, match=named):
        max_text_length(tokenizer, 512, None)
    assert max_text_length(tokenizer, 512, 128) == 128
    assert [max_text_length(TOKENIZER, room, None) for room in (512, 37)] == [64, 37]
    with pytest.raises(ConfigError, match="600; this model reads 4 to 512"):
        max_text_length(TOKENIZER, 512, 600)
