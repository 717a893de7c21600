"""Rows of an encoder–decoder hold a text and its end; a pair is one text with two words in it."""

import pytest
from refusals import refuses
from tiny_tokenizers import TINY

from bertsmith.data.source_rows import encode_sources
from bertsmith.data.windowing import Windowing
from bertsmith.errors import SettingError

END = 4
FIRST, SECOND = "the sea is wide.", "who runs it?"


@pytest.mark.parametrize("kind", TINY)
def test_a_pair_is_encoded_as_the_text_that_it_becomes(kind):
    tokenizer = TINY[kind]()
    texts = [(FIRST, SECOND), (FIRST, None), ("", None)]
    encoded = encode_sources(tokenizer, END, texts, 200, Windowing())
    joined = [f"sentence1: {FIRST} sentence2: {SECOND}", FIRST, ""]
    for row, text in zip(encoded.rows.ids, joined, strict=True):
        assert row.tolist() == [*tokenizer.encode_ids(text), END]
    assert not encoded.rows.type_ids.flat.any() and encoded.num_cut == [0, 0, 0]


@pytest.mark.parametrize("long_texts", ["window", "cut"])
def test_long_texts_are_divided_or_cut_to_the_length(long_texts):
    tokenizer = TINY["wordpiece"]()
    texts = [(17 * FIRST, SECOND), (17 * FIRST, None)]
    encoded = encode_sources(tokenizer, END, texts, 61, Windowing(long_texts))
    assert max(encoded.rows.lengths) == 61
    assert all(row[-1] == END for row in encoded.rows.ids)
    is_cut, is_divided = ([each > first for each in counts] for counts, first in (
        (encoded.num_cut, 0), (encoded.num_windows, 1),
    ))  # fmt: skip
    assert (is_cut, is_divided) == (
        ([False] * 2, [True] * 2) if long_texts == "window" else ([True] * 2, [False] * 2)
    )


def test_a_length_without_room_beside_the_words_is_refused():
    tokenizer = TINY["wordpiece"]()
    with refuses(SettingError, "--max-length", "22"):
        encode_sources(tokenizer, END, [(FIRST, SECOND)], 22, Windowing())
    for texts, length in (([(FIRST, SECOND)], 23), ([(FIRST, None)], 3)):
        assert (
            max(encode_sources(tokenizer, END, texts, length, Windowing()).rows.lengths) <= length
        )
