"""Cutting many words at once gives what WordPiece gives for each, or nothing."""

import random

import numpy as np

from bertsmith.tokenization.chunk_table import PADDING_BYTES
from bertsmith.tokenization.wordpiece import WordPiece

PIECES = ["?", *"abc1-é", "ab", "abcabc", "b" * 16, "c" * 17, "##a", "##b", "##bc", "##1"]


def test_words_are_cut_as_one_by_one_or_left_alone():
    wordpiece = WordPiece(PIECES, unk_id=0, max_chars=100)
    cutter = wordpiece.cutter()
    assert cutter
    rng = random.Random(41)
    words = ["".join(rng.choices("abc1", k=rng.randrange(1, 20))) for _ in range(2000)]
    words += ["b" * 16, "b" * 17, "c" * 17, "-", "a-", "a\xe9", "abcx", "A"]
    lengths = np.array([len(word.encode()) for word in words])
    data = "".join(words).encode()
    data = data.ljust((len(data) + PADDING_BYTES + 7) // 8 * 8)
    ids, counts = cutter.cut(data, lengths.cumsum() - lengths, lengths)
    parts = [tuple(part.tolist()) for part in np.split(ids, counts.cumsum())[:-1]]
    known = [
        len(word) <= 16 and word.isascii() and word.isalnum() and wordpiece.ids(word) != (0,)
        for word in words
    ]
    assert 100 < sum(known) < len(words)
    assert parts == [
        wordpiece.ids(word) if is_known else () for word, is_known in zip(words, known, strict=True)
    ]


def test_short_words_that_may_be_too_long_are_left_to_the_rules():
    assert WordPiece(PIECES, unk_id=0, max_chars=15).cutter() is None
    assert WordPiece(PIECES, unk_id=0, max_chars=16).cutter() is not None
