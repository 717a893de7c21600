"""Choosing words: whole, within the budget, in runs of the right lengths, every word alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.pretraining.word_choice import RUN_LENGTHS, choose_words

KINDS = sorted(RUN_LENGTHS)


def packed(sequences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Words and lengths of sequences given as word sizes; 0 is a special token."""
    words, number = [], 0
    for sizes in [[0, *sizes, 0] for sizes in sequences]:
        for size in sizes:
            words += [number] * size if size else [-1]
            number += 1
    lengths = [2 + sum(max(1, size) for size in sizes) for sizes in sequences]
    return np.array(words), np.array(lengths)


def one_by_one(
    sizes: np.ndarray, runs: np.ndarray, sequences: np.ndarray, budgets: np.ndarray
) -> list[bool]:
    """What `_spend` does, as a loop over words."""
    taken, room, closed = [], budgets.tolist(), set()
    for size, run, sequence in zip(sizes, runs, sequences, strict=True):
        fits = run not in closed and size <= room[sequence]
        if not fits:
            closed.add(run)
        room[sequence] -= size * fits
        taken.append(bool(fits))
    for sequence in set(sequences.tolist()):
        own = np.flatnonzero(sequences == sequence)
        if not any(taken[i] for i in own):
            taken[min(own, key=lambda i: (sizes[i], i))] = True
    return taken


sequences = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=30), min_size=1, max_size=7)


@given(sequences, st.integers(1, 40), st.sampled_from(KINDS), st.integers(0, 2**32))
def test_words_are_whole_and_budgets_kept(
    sequences: list[list[int]], percent: int, kind: str, seed: int
) -> None:
    words, lengths = packed(sequences)
    budgets = np.maximum(1, np.rint(lengths * percent / 100)).astype(int)
    rng = np.random.default_rng(seed)
    places, runs = choose_words(words, lengths, budgets, RUN_LENGTHS[kind], rng)
    assert (np.diff(places) > 0).all()
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


@given(sequences, st.sampled_from(KINDS), st.integers(0, 2**32))
def test_no_run_crosses_a_special_token_or_a_sequence(
    sequences: list[list[int]], kind: str, seed: int
) -> None:
    words, lengths = packed(sequences)
    rng = np.random.default_rng(seed)
    places, runs = choose_words(words, lengths, lengths, RUN_LENGTHS[kind], rng)
    assert places.tolist() == np.flatnonzero(words >= 0).tolist()  # the budget is for all
    for run in set(runs.tolist()):
        own = places[runs == run]
        assert own.tolist() == list(range(own[0], own[-1] + 1))
        assert len(set(words[own].tolist())) <= len(RUN_LENGTHS[kind])


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 3)), max_size=60),
    st.lists(st.integers(1, 12), min_size=4, max_size=4),
)
def test_rounds_take_what_a_loop_over_words_would_take(
    drawn: list[tuple[int, int, int]], budgets: list[int]
) -> None:
    from bertsmith.pretraining.word_choice import _spend

    drawn = sorted(drawn, key=lambda word: (word[2], word[1]))
    sizes, runs, sequences = np.array(drawn, dtype=int).reshape(-1, 3).T
    runs = runs + 5 * sequences
    found = _spend(np.array(budgets), sizes, runs, sequences)
    assert found.tolist() == one_by_one(sizes, runs, sequences, np.array(budgets))


def run_sizes(kind: str, num_words: int = 60_000) -> np.ndarray:
    """Words of every chosen run in one long text of single-piece words."""
    words, lengths = packed([[1] * num_words])
    rng = np.random.default_rng(7)
    budget = np.rint(lengths * 0.15).astype(int)
    _, runs = choose_words(words, lengths, budget, RUN_LENGTHS[kind], rng)
    return np.unique(runs, return_counts=True)[1]


def within_binomial(counts: np.ndarray, shares: np.ndarray) -> bool:
    """Whether no count is more than five standard deviations from its share."""
    total = counts.sum()
    spread = np.sqrt(total * shares * (1 - shares))
    return bool((np.abs(counts - total * shares) <= 5 * spread + 1e-9).all())


def test_spans_have_spanberts_lengths() -> None:
    sizes = run_sizes("span")
    shares = 0.2 * 0.8 ** np.arange(10)
    assert len(sizes) > 2000
    assert within_binomial(np.bincount(sizes, minlength=11)[1:], shares / shares.sum())
    assert sizes.mean() == pytest.approx(3.8, abs=0.3)


def test_ngrams_have_alberts_lengths() -> None:
    counts = np.bincount(run_sizes("ngram"), minlength=4)
    assert within_binomial(counts[1:], np.array([6, 3, 2]) / 11)


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_is_about_equally_likely(kind: str) -> None:
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


def test_long_words_are_chosen_nearly_as_often_as_short_ones() -> None:
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


def test_the_shortest_word_is_chosen_where_none_fits() -> None:
    words, lengths = packed([[5, 3, 4], [1, 9]])
    rng = np.random.default_rng(0)
    places, _ = choose_words(words, lengths, np.array([1, 1]), RUN_LENGTHS["span"], rng)
    assert places.tolist() == [6, 7, 8, 15]
    no_words = choose_words(np.full(5, -1), np.array([5]), np.array([1]), RUN_LENGTHS["word"], rng)
    assert [len(part) for part in no_words] == [0, 0]


def test_adversarial_sizes_need_few_rounds() -> None:
    # Odd budgets and words of two pieces only: everything that cannot begin is left at once.
    words, lengths = packed([[2] * 2000] * 3)
    budgets = np.array([301, 299, 1])
    places, _ = choose_words(words, lengths, budgets, RUN_LENGTHS["word"], np.random.default_rng(1))
    sequence = np.repeat(np.arange(3), lengths)[places]
    assert np.bincount(sequence).tolist() == [300, 298, 2]
