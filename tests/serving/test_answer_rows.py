"""Answers in the rows of transformers' pipeline, with and without "no answer"."""

import numpy as np
import pytest

from bertsmith.serving.contracts.hugging_face.answers import answer_rows
from bertsmith.tasks.answer_prediction import AnswerPrediction
from bertsmith.tasks.answer_search import SpanCandidates

CONTEXT = "Angela lives in Berlin."
NONE = {"answer": "", "start": 0, "end": 0}


def prediction(null_score, threshold):
    """Angela with the score 2, Berlin with the score 1."""
    spans = SpanCandidates(
        np.array([0, 16]), np.array([6, 22]), np.array([2.0, 1.0], dtype=np.float32), null_score
    )
    return AnswerPrediction(CONTEXT, spans, threshold, is_truncated=False)


def rows(count, *, null_score=0.0, threshold=None, may_abstain=None):
    return answer_rows(prediction(null_score, threshold), count, may_abstain=may_abstain)


def without_score(found):
    return [{name: value for name, value in row.items() if name != "score"} for row in found]


ANGELA = {"answer": "Angela", "start": 0, "end": 6}
BERLIN = {"answer": "Berlin", "start": 16, "end": 22}


def test_a_model_that_always_answers_ranks_its_answers():
    found = rows(5)
    assert without_score(found) == [ANGELA, BERLIN]
    assert sum(row["score"] for row in found) == pytest.approx(1)
    assert without_score(rows(1)) == [ANGELA]


def test_no_answer_comes_first_where_the_model_decides_so():
    found = rows(5, null_score=5.0, threshold=0.0)
    assert without_score(found) == [NONE, ANGELA, BERLIN]
    assert sum(row["score"] for row in found) == pytest.approx(1)
    assert without_score(rows(1, null_score=5.0, threshold=0.0)) == [NONE]
    assert without_score(rows(1, null_score=5.0, threshold=9.0)) == [ANGELA]


def test_a_request_may_ask_for_an_answer_all_the_same():
    found = rows(1, null_score=5.0, threshold=0.0, may_abstain=False)
    assert without_score(found) == [ANGELA]


def test_a_passage_without_a_token_has_no_answer():
    empty = SpanCandidates(*(np.empty(0, dtype=np.int64),) * 2, np.empty(0, np.float32), 0.0)
    nothing = AnswerPrediction("", empty, None, is_truncated=False)
    for may_abstain in (None, True, False):
        assert without_score(answer_rows(nothing, 3, may_abstain=may_abstain)) == [NONE]
