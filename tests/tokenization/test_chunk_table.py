"""The table finds every key that it took, and takes as many as it promises."""

import numpy as np

from bertsmith.tokenization.chunk_table import (
    MAX_KEYS,
    NOT_FOUND,
    ChunkTable,
    chunk_keys,
    pad_for_keys,
)
from bertsmith.tokenization.wordpiece import WordPiece


def numbered_keys(first, stop):
    starts = np.arange(0, 8 * (stop - first), 8)
    data = b"".join(b"%08d" % number for number in range(first, stop))
    return chunk_keys(pad_for_keys(data), starts, np.full(stop - first, 8))


def test_a_full_table_finds_every_key():
    table, keys, values = ChunkTable(), numbered_keys(0, MAX_KEYS), np.arange(MAX_KEYS)
    table.add(keys, values)
    np.testing.assert_array_equal(table.find(keys), values)


def test_what_would_not_fit_is_left_out_as_a_whole():
    table, keys, values = ChunkTable(), numbered_keys(0, MAX_KEYS - 7), np.arange(MAX_KEYS - 7)
    table.add(keys, values)
    more = numbered_keys(MAX_KEYS, MAX_KEYS + 8)
    table.add(more, np.arange(8))
    assert (table.find(more) == NOT_FOUND).all()
    np.testing.assert_array_equal(table.find(keys), values)
    first = more.at(np.arange(7))
    table.add(first, np.arange(7))
    np.testing.assert_array_equal(table.find(first), np.arange(7))


def test_the_largest_vocabulary_cuts_words_like_the_ordinary_way():
    tokens = [f"{number:05x}" for number in range(MAX_KEYS - 19)]
    short = [f"{number:x}" for number in range(1, 10)]
    wordpiece = WordPiece(
        ["[UNK]", *tokens, *short, *(f"##{token}" for token in short)], 0, max_chars=100
    )
    words = tokens[1::131]
    starts = np.arange(0, 5 * len(words), 5)
    cutter = wordpiece.cutter()
    ids, counts = cutter.cut(pad_for_keys("".join(words).encode()), starts, np.full(len(words), 5))
    found = [tuple(part.tolist()) for part in np.split(ids, counts.cumsum())[:-1]]
    assert found == [wordpiece.ids(word) for word in words]
