"""Sentence pairs: both labels alike, true neighbours adjacent, strangers from another document."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.pretraining.segments import (
    IN_ORDER,
    IS_NEXT,
    IS_RANDOM,
    IS_SWAPPED,
    Anchors,
    draw_lengths,
    draw_ordered_pairs,
    draw_pairs,
    windows_around,
)

TARGET = 61


@dataclass(frozen=True)
class Bounds:
    sentence_starts: np.ndarray
    document_starts: np.ndarray


def text(documents):
    """Bounds of documents given as lists of sentence lengths."""
    sentences = [length for document in documents for length in document]
    return Bounds(np.cumsum([0, *sentences]), np.cumsum([0, *map(len, documents)]))


def random_text(seed, num_documents=53):
    rng = np.random.default_rng(seed)
    return text([rng.integers(2, 40, rng.integers(1, 19)).tolist() for _ in range(num_documents)])


def drawn(bounds, seed, num_rows=997, short=0.1, draw=draw_pairs):
    rng = np.random.default_rng(seed)
    anchors = rng.integers(0, bounds.sentence_starts[-1], num_rows)
    return draw(bounds, anchors, draw_lengths(num_rows, TARGET, short, rng), rng)


def document_of(bounds, token):
    starts = bounds.sentence_starts[bounds.document_starts]
    return np.searchsorted(starts, token, side="right") - 1


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_segments_fill_the_target_inside_one_document_each(seed):
    bounds = random_text(seed, num_documents=7)
    pairs = drawn(bounds, seed + 1, num_rows=101)
    len_a, len_b = pairs.a_ends - pairs.a_starts, pairs.b_ends - pairs.b_starts
    assert (len_a >= 1).all()
    assert (len_b >= 1).all()
    assert (len_a + len_b <= TARGET).all()
    for starts, ends in ((pairs.a_starts, pairs.a_ends), (pairs.b_starts, pairs.b_ends)):
        assert (document_of(bounds, starts) == document_of(bounds, ends - 1)).all()
    same = document_of(bounds, pairs.a_starts) == document_of(bounds, pairs.b_starts)
    assert (same == (pairs.labels == IS_NEXT)).all()
    assert set(pairs.labels.tolist()) <= {IS_NEXT, IS_RANDOM}
    assert (pairs.b_starts[same] >= pairs.a_ends[same]).all()


def test_a_true_continuation_is_adjacent_unless_trimmed():
    # Sentences of 5 tokens: 12 of them reach the target of 60 exactly, so nothing is trimmed.
    bounds = text([[5] * 24] * 5)
    rng = np.random.default_rng(1)
    anchors = rng.integers(0, 600, 499)
    pairs = draw_pairs(bounds, anchors, np.full(499, 60), rng)
    is_next = pairs.labels == IS_NEXT
    assert (pairs.a_ends[is_next] == pairs.b_starts[is_next]).all()
    assert (pairs.b_ends - pairs.a_starts)[is_next].tolist() == [60] * int(is_next.sum())
    lengths = pairs.a_ends - pairs.a_starts
    assert sorted(set((lengths // 5).tolist())) == list(range(1, 12))


def test_both_labels_are_equally_frequent_and_length_tells_none():
    for bounds in (text([[200, 200]] * 4), text([[7] * 9] * 11)):
        pairs = drawn(bounds, seed=3, num_rows=4001)
        assert pairs.labels.mean() == pytest.approx(0.5, abs=0.04)
    pairs = drawn(text([[6, 6, 6, 6]] * 29), seed=8, num_rows=8009, short=0.0)
    total = pairs.a_ends - pairs.a_starts + pairs.b_ends - pairs.b_starts
    for label in (IS_NEXT, IS_RANDOM):
        assert set(total[pairs.labels == label].tolist()) == {24}


def test_random_segments_come_from_all_other_tokens_alike():
    bounds = text([[3] * 100, [3] * 10, [3] * 50])
    anchors = np.full(30_000, 310)  # always in the second document
    pairs = draw_pairs(bounds, anchors, np.full(30_000, 30), np.random.default_rng(4))
    other = document_of(bounds, pairs.b_starts[pairs.labels == IS_RANDOM])
    shares = np.bincount(other, minlength=3) / len(other)
    assert shares == pytest.approx([2 / 3, 0, 1 / 3], abs=0.02)


def test_windows_are_full_and_stay_in_their_document():
    bounds = text([[5, 6], [50, 50], [9]])
    anchors = np.arange(bounds.sentence_starts[-1])
    windows = windows_around(bounds, anchors, 30)
    first, last = document_of(bounds, windows.a_starts), document_of(bounds, windows.a_ends - 1)
    assert (first == last).all()
    assert (first == document_of(bounds, anchors)).all()
    assert sorted(set((windows.a_ends - windows.a_starts).tolist())) == [9, 11, 30]
    assert (windows.b_ends == windows.b_starts).all()


def test_an_epoch_covers_the_text_evenly_in_an_order_of_its_own():
    anchors = Anchors(10_007, 101, seed=1)
    count = anchors.num_anchors
    first, second = (anchors.positions(epoch * count, count) for epoch in (0, 1))
    assert count == 99
    for epoch in (first, second):
        gaps = np.diff(np.sort(epoch))
        assert gaps.min() >= 101
        assert gaps.max() <= 102
    assert np.argsort(first).tolist() != np.argsort(second).tolist()
    assert np.sort(first).tolist() != np.sort(second).tolist()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_order_labels_say_the_truth(seed):
    bounds = random_text(seed, num_documents=7)
    pairs = drawn(bounds, seed + 1, num_rows=101, draw=draw_ordered_pairs)
    document = document_of(bounds, pairs.a_starts)
    num_sentences = np.diff(bounds.document_starts)[document]
    is_alone = pairs.labels == IGNORE_INDEX
    assert (is_alone == (num_sentences == 1)).all()
    assert (pairs.b_ends[is_alone] == pairs.b_starts[is_alone]).all()
    two = ~is_alone
    assert (document_of(bounds, pairs.b_starts[two]) == document[two]).all()
    straight, swapped = pairs.labels == IN_ORDER, pairs.labels == IS_SWAPPED
    assert (straight | swapped | is_alone).all()
    assert (pairs.a_ends[straight] <= pairs.b_starts[straight]).all()
    assert (pairs.b_ends[swapped] <= pairs.a_starts[swapped]).all()
    lengths = pairs.a_ends - pairs.a_starts + pairs.b_ends - pairs.b_starts
    assert lengths.max() <= TARGET
    assert ((pairs.a_ends > pairs.a_starts) & (is_alone | (pairs.b_ends > pairs.b_starts))).all()
