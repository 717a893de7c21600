"""How well a vocabulary fits: the figures, recomputed with the `tokenizers` library."""

from collections import Counter

import pytest
from tokenizers import models

from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.hf_trainer import is_installed, learn_with_library
from bertsmith.vocabulary.stats import tokenizer_stats
from bertsmith.vocabulary.wordpiece import SPECIAL_TOKENS, learn_vocabulary

WORDS = Normalizer().words
LEARNING = WORDS("The cat sat on the mat, and the other cats sat on other mats. " * 3)
HELD_OUT = Counter(WORDS("That cat, the otter, sat on q and thé café; " + "a" * 101))


def test_figures_by_hand() -> None:
    vocab = [*SPECIAL_TOKENS, "cat", "##s", "c", "##a"]
    fit = tokenizer_stats(WordPieceTokenizer(vocab), {"cats": 3, "ca": 1, "dog": 2, "c": 1})
    assert (fit.num_words, fit.num_pieces, fit.num_unknown) == (7, 3 * 2 + 2 + 2 + 1, 2)
    assert (fit.num_used, fit.vocab_size) == (4, 4)
    assert fit.fertility == pytest.approx(11 / 7)
    assert fit.unknown_rate == pytest.approx(2 / 7)
    assert fit.vocabulary_use == 1.0


def test_figures_equal_those_of_the_library() -> None:
    vocab = learn_vocabulary(Counter(LEARNING), 60).tokens
    library = models.WordPiece(
        {token: index for index, token in enumerate(vocab)},
        unk_token="[UNK]",
        max_input_chars_per_word=100,
    )
    encoded = [[token.value for token in library.tokenize(w)] for w in HELD_OUT.elements()]
    fit = tokenizer_stats(WordPieceTokenizer(vocab), HELD_OUT)
    assert fit.num_words == len(encoded)
    assert fit.num_pieces == sum(map(len, encoded))
    assert fit.num_unknown == encoded.count(["[UNK]"]) >= 2  # q and the word that is too long
    assert fit.num_used == len({piece for pieces in encoded for piece in pieces} - {"[UNK]"})


def test_nothing_held_out_gives_zeros() -> None:
    fit = tokenizer_stats(WordPieceTokenizer(SPECIAL_TOKENS), {})
    assert (fit.fertility, fit.unknown_rate, fit.vocabulary_use) == (0, 0, 0)


def test_the_library_learns_from_the_same_words() -> None:
    assert is_installed()
    counts = Counter(LEARNING)
    ours = learn_vocabulary(counts, 40, character_coverage=1.0)
    theirs = learn_with_library(counts, 40, alphabet_size=len(ours.alphabet), min_frequency=2)
    assert theirs[:5] == list(SPECIAL_TOKENS)
    assert len(theirs) == len(ours.tokens) == 40
    assert tokenizer_stats(WordPieceTokenizer(theirs), counts).num_unknown == 0


def test_counts_above_a_line_reach_the_library_whole() -> None:
    counts = {"ab": 4096 * 2 + 1, "cd": 4096 * 2}
    theirs = learn_with_library(counts, 5 + 6 + 1, alphabet_size=4, min_frequency=2)
    assert theirs[-1] == "ab"
