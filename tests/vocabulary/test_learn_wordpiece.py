"""Learning a vocabulary: exactness against a learner that recounts everything, and properties."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.alphabet import single_character_pieces
from bertsmith.vocabulary.segmentation import characters
from bertsmith.vocabulary.stats import tokenizer_stats
from bertsmith.vocabulary.wordpiece import (
    MAX_WORD_LEN,
    RULES,
    SPECIAL_TOKENS,
    LearnedVocabulary,
    learn_wordpiece,
)

RULE_NAMES = sorted(RULES)
# Few letters and long runs of one letter make merges overlap, chain and meet again.
words = st.text(alphabet="aab", min_size=1, max_size=9) | st.text("abcdé", min_size=1, max_size=7)
corpora = st.dictionaries(words, st.integers(1, 6), min_size=1, max_size=12)


def join(left: str, right: str) -> str:
    return left + right[2:]


def merge_in(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    index = 0
    while index < len(pieces):
        is_pair = tuple(pieces[index : index + 2]) == pair
        merged.append(join(*pair) if is_pair else pieces[index])
        index += 2 if is_pair else 1
    return merged


def naive_best_pair(segmented, counts, rule, min_frequency):
    """Recount every piece and pair from scratch, score every pair, sort."""
    frequency: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for word, pieces in segmented.items():
        for piece in pieces:
            frequency[piece] += counts[word]
        for pair in pairwise(pieces):
            pairs[pair] += counts[word]
    candidates = [pair for pair, count in pairs.items() if count >= min_frequency]
    if not candidates:
        return None
    figures = [(pairs[pair], *(frequency[piece] for piece in pair)) for pair in candidates]
    scores = RULES[rule](*np.array(figures).T, frequency.total())
    score, pair = min(zip(-scores, candidates, strict=True))
    return pair if score < 0 else None


def naive_merges(counts, start, num_pieces, rule, min_frequency):
    segmented = {word: characters(word) for word in counts}
    pieces = list(start)
    while len(pieces) < num_pieces:
        pair = naive_best_pair(segmented, counts, rule, min_frequency)
        if pair is None:
            break
        segmented = {word: merge_in(parts, pair) for word, parts in segmented.items()}
        if join(*pair) not in pieces:
            pieces.append(join(*pair))
    return pieces


@pytest.mark.parametrize("rule", RULE_NAMES)
@settings(max_examples=40)
@given(counts=corpora, min_frequency=st.integers(1, 3), extra=st.integers(0, 40))
def test_the_incremental_learner_equals_one_that_recounts_everything(
    rule, counts, min_frequency, extra
):
    start = single_character_pieces(sorted(set("".join(counts))), counts)
    learned = learn_wordpiece(
        counts, 5 + len(start) + extra, rule=rule, min_frequency=min_frequency,
        character_coverage=1.0, surplus=0.0,
    )  # fmt: skip
    assert learned.tokens[5:] == naive_merges(
        counts, start, len(start) + extra, rule, min_frequency
    )


@settings(max_examples=40)
@given(counts=corpora, extra=st.integers(0, 12), surplus=st.floats(0, 2))
def test_every_word_learnt_from_stays_known_whatever_is_dropped(counts, extra, surplus):
    start = single_character_pieces(sorted(set("".join(counts))), counts)
    size = 5 + len(start) + extra
    learned = learn_wordpiece(counts, size, character_coverage=1.0, surplus=surplus)
    assert len(learned.tokens) <= size
    assert learned.tokens[5 : 5 + len(start)] == start
    assert len(set(learned.tokens)) == len(learned.tokens)
    assert tokenizer_stats(WordPieceTokenizer(learned.tokens), counts).num_unknown == 0


def test_pieces_that_only_led_to_longer_ones_make_room():
    counts = {"river": 9, "rider": 4}
    size = 5 + 10 + 2
    plain = learn_wordpiece(counts, size, character_coverage=1.0, surplus=0.0).tokens
    better = learn_wordpiece(counts, size, character_coverage=1.0, surplus=3.0).tokens
    assert plain[-2:] == ["##er", "ri"]
    assert sorted(better[-2:]) == ["rider", "river"]
    assert len(better) == len(plain) == size


def learn(counts: dict[str, int], vocab_size: int) -> LearnedVocabulary:
    return learn_wordpiece(counts, vocab_size, rule="frequency", character_coverage=1.0)


def test_order_coverage_and_refusal():
    learned = learn({"ab": 5, "abc": 4, "!": 9}, vocab_size=14)
    characters_ = ["!", "a", "b", "c", "##a", "##b", "##c"]
    assert learned.tokens == [*SPECIAL_TOKENS, *characters_, "ab", "abc"]
    assert learn({"zy": 3, "ab": 3, "ac": 3}, 5 + 10 + 3).tokens[-3:] == ["ab", "ac", "zy"]
    learned = learn_wordpiece({"ab": 50, "é": 1, "añ": 1}, 100, character_coverage=0.98)
    assert learned.alphabet == ["a", "b"]
    assert (learned.dropped_characters, learned.skipped_words) == ({"é": 1, "ñ": 1}, 2)
    assert len("ab" * 51) > MAX_WORD_LEN
    learned = learn({"ab" * 51: 9, "cd": 3}, vocab_size=1000)
    assert learned.skipped_words == 9 and "ab" not in learned.tokens
    with refuses(ConfigError, "--vocab-size:", "11", "5 special", "7 tokens of", "at least 12"):
        learn({"ab": 5, "abc": 4, "!": 9}, vocab_size=11)
