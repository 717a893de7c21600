"""Pieces are spelled as they read in a text, between their marks."""

import numpy as np
import pytest
from tiny_tokenizers import TINY, tiny_wordpiece

from bertsmith.lineage.piece_characters import (
    NUM_CHARACTERS,
    PADDING,
    PIECE_BEGIN,
    PIECE_END,
    TEXT_BEGIN,
    TEXT_END,
    piece_characters,
)
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer


def text_of(row):
    """Return the bytes between the marks, which must be followed by padding alone."""
    row = row.tolist()
    end = row.index(PIECE_END)
    assert row[0] == PIECE_BEGIN and set(row[end + 1 :]) <= {PADDING}
    return bytes(character - 1 for character in row[1:end])


@pytest.mark.parametrize("kind", TINY)
def test_pieces_of_a_text_spell_it(kind):
    """The numbers are those of the paper's code: 262, of which 0 is for rows without a piece."""
    tokenizer = TINY[kind]()
    table = piece_characters(tokenizer, 50)
    assert table.shape == (tokenizer.vocab_size, 50)
    assert table.min() >= 1 and table.max() == PADDING == NUM_CHARACTERS - 1
    text = "runs 漢字 the river"
    spelled = b"".join(text_of(table[id_]) for id_ in tokenizer.encode_ids(text))
    if kind == "wordpiece":
        spelled, text = spelled.replace(b"##", b""), text.replace(" ", "")
    assert spelled.strip() == text.encode()


def test_an_entry_that_is_not_spelled_in_bytes_is_spelled_as_it_is():
    """A vocab.json may have such an entry; no text is cut into it."""
    tokenizer = TINY["byte-bpe"]()
    pieces = tokenizer.vocab[: tokenizer.num_pieces]
    tokenizer = ByteBpeTokenizer([*pieces, "漢"], tokenizer.merges)
    table = piece_characters(tokenizer, 50)
    assert text_of(table[tokenizer.token_to_id("漢")]) == "漢".encode()


def test_the_tokens_around_a_text_are_characters_of_their_own():
    tokenizer = tiny_wordpiece()
    table = piece_characters(tokenizer, 7)
    for id_, character in ((tokenizer.cls_id, TEXT_BEGIN), (tokenizer.sep_id, TEXT_END)):
        expected = [PIECE_BEGIN, character, PIECE_END, *[PADDING] * 4]
        np.testing.assert_array_equal(table[id_], expected)
    assert text_of(table[tokenizer.token_to_id("##s")]) == b"##s"
    assert text_of(table[tokenizer.mask_id]) == b"[MASK"  # cut


def test_long_pieces_are_cut():
    tokenizer = tiny_wordpiece()
    table = piece_characters(tokenizer, 5)
    assert text_of(table[tokenizer.token_to_id("river")]) == b"riv"
