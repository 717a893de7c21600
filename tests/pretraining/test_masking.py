"""What is hidden: whole words within the budget, exact counts, shares within bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.pretraining.masking import MaskingVocabulary, mask_tokens
from bertsmith.pretraining.settings import MaskingRule
from bertsmith.pretraining.word_choice import RUN_LENGTHS, choose_words


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


@settings(max_examples=60)
@given(sequences, st.integers(1, 40), st.sampled_from(sorted(RUN_LENGTHS)), st.integers(0, 2**32))
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
    words, lengths = packed([[1] * 20_000])
    budget, rng = np.rint(lengths * 0.15).astype(int), np.random.default_rng(7)
    _, runs = choose_words(words, lengths, budget, RUN_LENGTHS[kind], rng)
    sizes = np.unique(runs, return_counts=True)[1]
    counts, shares = np.bincount(sizes)[1:], weights / weights.sum()
    spread = np.sqrt(len(sizes) * shares * (1 - shares))
    assert (np.abs(counts - len(sizes) * shares) <= 5 * spread).all()
    assert sizes.mean() == pytest.approx(mean, abs=0.3)


@pytest.mark.parametrize("kind", RUN_LENGTHS)
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


SPECIAL_IDS = {0, 1, 2, 3, 4}
MASK_ID = 4
PAPER = MaskingRule(rate=0.15, mask_share=0.8, random_share=0.1)
VOCABULARY = MaskingVocabulary(211, MASK_ID, SPECIAL_IDS)


def packed_rows(lengths, rng):
    """Rows of ordinary ids between [CLS] (2) and [SEP] (3), one after another."""
    rows = [[2, *rng.integers(5, 211, length - 2), 3] for length in lengths]
    return np.concatenate(rows).astype(np.uint16)


@settings(max_examples=40)
@given(st.lists(st.integers(3, 97), min_size=1, max_size=13), st.integers(0, 2**32))
def test_each_sequence_gives_its_exact_count(lengths, seed):
    rng = np.random.default_rng(seed)
    ids = packed_rows(lengths, rng)
    masked = mask_tokens(ids, np.array(lengths), PAPER, VOCABULARY, rng)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.bincount(sequence[masked.positions], minlength=len(lengths))
    assert counts.tolist() == [max(1, round(length * 0.15)) for length in lengths]
    assert (np.diff(masked.positions) > 0).all()
    assert masked.labels.tolist() == ids[masked.positions].tolist()
    assert not np.isin(masked.labels, list(SPECIAL_IDS)).any()
    untouched = np.ones(len(ids), dtype=bool)
    untouched[masked.positions] = False
    assert (masked.input_ids[untouched] == ids[untouched]).all()


def test_fates_have_their_shares():
    rng, lengths = np.random.default_rng(7), [101] * 2003
    ids = packed_rows(lengths, rng)
    masked = mask_tokens(ids, np.array(lengths), PAPER, VOCABULARY, rng)
    now = masked.input_ids[masked.positions]
    hidden, kept = now == MASK_ID, now == masked.labels
    replaced = ~hidden & ~kept
    # 30,000 draws: five standard deviations are 0.012 and 0.009; a random token is sometimes the
    # true one, which moves 1 in 206 of a tenth.
    assert hidden.mean() == pytest.approx(0.8, abs=0.012)
    assert kept.mean() == pytest.approx(0.1, abs=0.009)
    assert replaced.mean() == pytest.approx(0.1, abs=0.009)
    assert (now[replaced] >= 5).all() and len(np.unique(now[replaced])) == 206


def test_special_ids_in_the_text_are_spared_even_if_too_few_remain():
    ids = np.array([2, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3])
    rule = MaskingRule(rate=0.5, mask_share=1.0, random_share=0.0)
    masked = mask_tokens(ids, np.array([14]), rule, VOCABULARY, np.random.default_rng(0))
    assert masked.positions.tolist() == [3]
    assert masked.input_ids[3] == MASK_ID


@pytest.mark.parametrize("masking", ["word", "span", "ngram"])
def test_what_is_chosen_together_has_one_fate(masking):
    rng, lengths = np.random.default_rng(7), np.full(1009, 101)
    ids = packed_rows(lengths.tolist(), rng)
    # Words of three tokens.
    words = np.where(ids < 5, -1, np.cumsum(np.arange(len(ids)) % 3 == 0))
    rule = replace(PAPER, masking=masking)
    masked = mask_tokens(ids, lengths, rule, VOCABULARY, rng, words)
    now, numbers = masked.input_ids[masked.positions], words[masked.positions]
    hidden, kept = now == MASK_ID, now == masked.labels
    sizes = np.bincount(numbers)
    # A random token is sometimes the true one, so few words are counted as kept in part.
    for flags, most in ((hidden, 0), (kept, 0.005 * (sizes > 0).sum())):
        of_word = np.bincount(numbers, flags)
        assert ((of_word > 0) & (of_word < sizes)).sum() <= most
    # 5,000 words, or 1,300 spans of them: five standard deviations of the shares of spans.
    assert hidden.mean() == pytest.approx(0.8, abs=0.08)
    assert kept.mean() == pytest.approx(0.1, abs=0.06)
    assert (now[~hidden] >= 5).all()
