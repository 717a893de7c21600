"""Statistics of a vocabulary, recomputed with the `tokenizers` library."""

from collections import Counter

import pytest
from tokenizers import models

from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.stats import tokenizer_stats
from bertsmith.vocabulary.train import learn_with_library
from bertsmith.vocabulary.wordpiece import SPECIAL_TOKENS, learn_wordpiece

WORDS = Normalizer().words
LEARNING = Counter(WORDS("The cat sat on the mat, and the other cats sat on other mats. " * 3))
HELD_OUT = Counter(WORDS("That cat, the otter, sat on q and thé café; " + "a" * 101))


def test_figures_by_hand():
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "cat", "##s", "c", "##a"])
    stats = tokenizer_stats(tokenizer, {"cats": 3, "ca": 1, "dog": 2, "c": 1})
    assert (stats.num_words, stats.num_pieces, stats.num_unknown) == (7, 3 * 2 + 2 + 2 + 1, 2)
    assert (stats.num_used, stats.vocab_size, stats.vocabulary_use) == (4, 4, 1.0)
    assert (stats.fertility, stats.unknown_rate) == pytest.approx((11 / 7, 2 / 7))
    nothing = tokenizer_stats(tokenizer, {})
    assert (nothing.fertility, nothing.unknown_rate, nothing.vocabulary_use) == (0, 0, 0)


def test_figures_equal_those_of_the_library():
    tokens = learn_wordpiece(LEARNING, 60).tokens
    ids = {token: index for index, token in enumerate(tokens)}
    library = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
    encoded = [[token.value for token in library.tokenize(w)] for w in HELD_OUT.elements()]
    stats = tokenizer_stats(WordPieceTokenizer(tokens), HELD_OUT)
    assert stats.num_words == len(encoded)
    assert stats.num_pieces == sum(map(len, encoded))
    assert stats.num_unknown == encoded.count(["[UNK]"]) >= 2  # q and the word that is too long
    assert stats.num_used == len({piece for pieces in encoded for piece in pieces} - {"[UNK]"})


def test_the_library_learns_from_the_same_words():
    ours = learn_wordpiece(LEARNING, 40, character_coverage=1.0)
    theirs = learn_with_library(LEARNING, 40, alphabet_size=len(ours.alphabet), min_frequency=2)
    assert theirs[:5] == list(SPECIAL_TOKENS)
    assert len(theirs) == len(ours.tokens) == 40
    assert tokenizer_stats(WordPieceTokenizer(theirs), LEARNING).num_unknown == 0
    counts = {"ab": 4096 * 2 + 1, "cd": 4096 * 2}  # more than a line holds
    assert learn_with_library(counts, 12, alphabet_size=4, min_frequency=2)[-1] == "ab"
