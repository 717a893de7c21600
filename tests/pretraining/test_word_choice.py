"""Choosing words: whole, within the budget, in runs of the right lengths, every word alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.pretraining.word_choice import RUN_LENGTHS, choose_words

KINDS = sorted(RUN_LENGTHS)


def packed(sequences):
    """Words and lengths of sequences given as word sizes; 0 is a special token."""
    words, number = [], 0
    for sizes in [[0, *sizes, 0] for sizes in sequences]:
        for size in sizes:
            words += [number] * size if size else [-1]
            number += 1
    lengths = [2 + sum(max(1, size) for size in sizes) for sizes in sequences]
    return np.array(words), np.array(lengths)


sequences = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=30), min_size=1, max_size=7)


@given(sequences, st.integers(1, 40), st.sampled_from(KINDS), st.integers(0, 2**32))
def test_words_are_whole_and_budgets_kept(sequences, percent, kind, seed):
    words, lengths = packed(sequences)
    budgets = np.maximum(1, np.rint(lengths * percent / 100)).astype(int)
    rng = np.random.default_rng(seed)
    places, runs = choose_words(words, lengths, budgets, RUN_LENGTHS[kind], rng)
    assert (np.diff(places) > 0).all()
    for run in set(runs.tolist()):  # it crosses no special token and no sequence
        own = np.unique(words[places[runs == run]])
        assert len(own) <= len(RUN_LENGTHS[kind])
        assert (np.diff(own) == 1).all()
    assert len(runs) == len(places)
    chosen = set(words[places].tolist())
    assert -1 not in chosen
    assert len(places) == int(np.isin(words, list(chosen)).sum())
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    for number, sizes in enumerate(sequences):
        spent = int((sequence[places] == number).sum())
        whole = [size for size in sizes if size]
        if whole:
            assert 1 <= spent <= max(budgets[number], min(whole))
        else:
            assert spent == 0


@pytest.mark.parametrize(
    ("kind", "weights", "mean"),
    [("span", 0.8 ** np.arange(10), 3.8), ("ngram", np.array([6, 3, 2]), 18 / 11)],
)
def test_runs_have_the_lengths_of_spanbert_and_albert(kind, weights, mean):
    """In one long text of words of a piece."""
    words, lengths = packed([[1] * 60_000])
    budget, rng = np.rint(lengths * 0.15).astype(int), np.random.default_rng(7)
    _, runs = choose_words(words, lengths, budget, RUN_LENGTHS[kind], rng)
    sizes = np.unique(runs, return_counts=True)[1]
    counts, shares = np.bincount(sizes)[1:], weights / weights.sum()
    spread = np.sqrt(len(sizes) * shares * (1 - shares))
    assert (np.abs(counts - len(sizes) * shares) <= 5 * spread).all()
    assert sizes.mean() == pytest.approx(mean, abs=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_is_about_equally_likely(kind):
    words, lengths = packed([[1] * 101] * 4001)
    budgets = np.full(4001, 15)
    places, _ = choose_words(words, lengths, budgets, RUN_LENGTHS[kind], np.random.default_rng(3))
    hits = np.bincount(places % 103, minlength=103) / 4001
    assert hits[0] == hits[102] == 0
    assert hits[1:102].mean() == pytest.approx(15 / 101, abs=1e-9)  # the budget is spent
    # A standard deviation is 0.0056. The words at the end of a text are less often in a span that
    # the budget has cut, since that keeps its beginning.
    assert hits[1:92] == pytest.approx(15 / 101, abs=0.035)
    assert hits[92:102] == pytest.approx(15 / 101, abs=0.06)


def test_long_words_are_chosen_nearly_as_often_as_short_ones():
    rng = np.random.default_rng(5)
    sequences = [rng.choice([1, 1, 1, 2, 3], 80).tolist() for _ in range(2003)]
    words, lengths = packed(sequences)
    budgets = np.rint(lengths * 0.15).astype(int)
    places, _ = choose_words(words, lengths, budgets, RUN_LENGTHS["word"], rng)
    size_of = np.bincount(words[words >= 0])
    chosen = np.bincount(size_of[np.unique(words[places])], minlength=4)
    shares = chosen[1:] / np.bincount(size_of, minlength=4)[1:]
    # What is left of a budget goes to the words that fit, which are the short ones.
    assert shares == pytest.approx(0.15, abs=0.02)
    assert len(places) / budgets.sum() > 0.99


def test_the_shortest_word_is_chosen_where_none_fits():
    words, lengths = packed([[5, 3, 4], [1, 9]])
    rng = np.random.default_rng(0)
    places, _ = choose_words(words, lengths, np.array([1, 1]), RUN_LENGTHS["span"], rng)
    assert places.tolist() == [6, 7, 8, 15]
    no_words = choose_words(np.full(5, -1), np.array([5]), np.array([1]), RUN_LENGTHS["word"], rng)
    assert [len(part) for part in no_words] == [0, 0]
