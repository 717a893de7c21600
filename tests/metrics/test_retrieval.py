"""Ranks are exact, whatever the size of a block, and the scores are those of a plain count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.metrics import retrieval
from bertsmith.metrics.retrieval import iter_ranks, retrieval_scores


def plain_scores(queries, documents, relevant, k):
    """Recall and mean reciprocal rank by sorting every row."""
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    documents = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    recalls, reciprocals = [], []
    for query, places in zip(queries, relevant, strict=True):
        order = np.argsort(-(documents @ query), kind="stable").tolist()
        recalls.append(len(set(order[:k]) & set(places)) / len(places))
        reciprocals.append(1 / (1 + min(order.index(place) for place in places)))
    return np.mean(recalls), np.mean(reciprocals)


@pytest.mark.parametrize("block_scores", [2**24, 3 * 29, 1])
def test_scores_equal_a_plain_sort(monkeypatch, block_scores):
    monkeypatch.setattr(retrieval, "BLOCK_SCORES", block_scores)
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(13, 7)).astype(np.float32)
    documents = rng.normal(size=(29, 7)).astype(np.float32)
    relevant = [rng.choice(29, rng.integers(1, 4), replace=False).tolist() for _ in range(13)]
    scores = retrieval_scores(queries, documents, relevant, ks=(1, 5))
    for k in (1, 5):
        recall, mrr = plain_scores(queries, documents, relevant, k)
        assert scores.recall[k] == pytest.approx(recall, abs=1e-12)
        assert scores.mrr == pytest.approx(mrr, abs=1e-12)
    assert (scores.num_queries, scores.num_documents) == (13, 29)


@given(st.lists(st.integers(0, 2), min_size=2, max_size=9), st.data())
def test_of_equal_documents_the_earlier_ranks_higher(kinds, data):
    documents = np.eye(3, dtype=np.float32)[kinds]
    place = data.draw(st.integers(0, len(kinds) - 1))
    query = np.eye(3, dtype=np.float32)[[kinds[place]]]
    (ranks,) = iter_ranks(query, documents, [[place]])
    assert ranks.tolist() == [1 + kinds[:place].count(kinds[place])]
