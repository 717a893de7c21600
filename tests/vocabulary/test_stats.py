"""Statistics of a vocabulary, recomputed with the `tokenizers` library."""

from collections import Counter

import pytest

from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.stats import tokenizer_stats
from bertsmith.vocabulary.train import learn_with_library
from bertsmith.vocabulary.wordpiece import SPECIAL_TOKENS, learn_wordpiece

WORDS = Normalizer().words
LEARNING = Counter(WORDS("The cat sat on the mat, and the other cats sat on other mats. " * 3))


def test_figures_by_hand():
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "cat", "##s", "c", "##a"])
    stats = tokenizer_stats(tokenizer, {"cats": 3, "ca": 1, "dog": 2, "c": 1, "a" * 101: 1})
    assert (stats.num_words, stats.num_pieces, stats.num_unknown) == (8, 3 * 2 + 2 + 2 + 1 + 1, 3)
    assert (stats.num_used, stats.vocab_size, stats.vocabulary_use) == (4, 4, 1.0)
    assert (stats.fertility, stats.unknown_rate) == pytest.approx((12 / 8, 3 / 8))
    nothing = tokenizer_stats(tokenizer, {})
    assert (nothing.fertility, nothing.unknown_rate, nothing.vocabulary_use) == (0, 0, 0)


def test_the_library_learns_from_the_same_words():
    ours = learn_wordpiece(LEARNING, 40, character_coverage=1.0)
    theirs = learn_with_library(LEARNING, 40, alphabet_size=len(ours.alphabet), min_frequency=2)
    assert theirs[:5] == list(SPECIAL_TOKENS)
    assert len(theirs) == len(ours.tokens) == 40
    assert tokenizer_stats(WordPieceTokenizer(theirs), LEARNING).num_unknown == 0
    counts = {"ab": 4096 * 2 + 1, "cd": 4096 * 2}  # more than a line holds
    assert learn_with_library(counts, 12, alphabet_size=4, min_frequency=2)[-1] == "ab"
