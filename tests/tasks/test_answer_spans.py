"""The best spans of all windows equal those found by trying every one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_tokenizer

from bertsmith.data.question_windows import encode_questions, offsets_of
from bertsmith.data.squad import Question
from bertsmith.data.windows import Windowing
from bertsmith.tasks.answer_prediction import NUM_CANDIDATES, best_answers


def encoded_contexts(*lengths, max_length=17, stride=5):
    questions = [
        Question(str(i), "a film", " ".join(["good"] * length)) for i, length in enumerate(lengths)
    ]
    return encode_questions(tiny_tokenizer(), questions, max_length, Windowing(stride=stride))


def random_logits(encoded, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(length, 2)).astype(np.float32) for length in encoded.rows.lengths]


def every_span(logits, encoded, question, max_answer_length):
    """Score and characters of each span, best first, from the definition."""
    scores = {}
    for row in range(*encoded.starts[question : question + 2]):
        window = encoded.alignment[row]
        for first in range(window.size):
            for last in range(first, min(first + max_answer_length, window.size)):
                score = logits[row][window.first + first, 0] + logits[row][window.first + last, 1]
                place = (first + window.begin, last + window.begin)
                scores[place] = max(score, scores.get(place, -np.inf))
    offsets = offsets_of(encoded, question)
    ranked = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(s, int(offsets[a, 0]), int(offsets[b, 1])) for (a, b), s in ranked]


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    stride=st.integers(0, 8),
    width=st.integers(1, 20) | st.just(2**60),
    seed=st.integers(0, 99),
)
def test_spans_of_all_windows_compete(lengths, stride, width, seed):
    encoded = encoded_contexts(*lengths, stride=stride)
    logits = random_logits(encoded, seed)
    for question, found in enumerate(best_answers(logits, encoded, width)):
        expected = every_span(logits, encoded, question, width)[:NUM_CANDIDATES]
        assert [
            tuple(span) for span in zip(found.scores, found.starts, found.stops, strict=True)
        ] == expected
        rows = range(*encoded.starts[question : question + 2])
        assert found.null_score == min(logits[row][0].sum() for row in rows)


def test_a_token_of_no_character_is_no_answer():
    encoded = encoded_contexts(3)
    offsets = offsets_of(encoded, 0)
    offsets[1] = offsets[0, 1]
    (found,) = best_answers(random_logits(encoded, 0), encoded, 30)
    assert (found.stops > found.starts).all()
    assert len(found.starts) == len(found.stops) == len(found.scores) == 5


def test_of_equal_scores_the_earlier_and_shorter_wins():
    encoded = encoded_contexts(5)
    (found,) = best_answers([np.zeros((len(encoded.rows.ids[0]), 2), np.float32)], encoded, 30)
    assert list(zip(found.starts, found.stops, strict=True))[:3] == [(0, 4), (0, 9), (0, 14)]
    assert len(found.scores) == 15


def test_probabilities_are_taken_over_the_candidates():
    encoded = encoded_contexts(4)
    logits = random_logits(encoded, 3)
    (found,) = best_answers(logits, encoded, 30)
    alone = found.probabilities(with_null=False)
    assert alone.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        alone[0] / alone[1], np.exp(found.scores[0] - found.scores[1]), rtol=1e-5
    )
    beside = found.probabilities(with_null=True)
    null = 1 - beside.sum()
    np.testing.assert_allclose(np.log(null / beside[0]), found.no_answer_score, rtol=1e-5)
