"""Statistics of heads, compared with sums written out, and maps of vectors."""

import math

import numpy as np
import pytest
import torch

from bertsmith.inspection.head_statistics import STATISTICS, StatisticsSum
from bertsmith.inspection.vector_map import project


def test_statistics_equal_sums_over_every_query():
    torch.manual_seed(0)
    texts = [torch.rand(3, length, length).softmax(-1) for length in (7, 4)]
    separators = [torch.arange(len(each[0])) == len(each[0]) - 1 for each in texts]
    total = StatisticsSum(num_layers=2, num_heads=3)
    total.add_lengths([7, 4])
    for weights, is_separator in zip(texts, separators, strict=True):
        total.add_weights(1, weights, is_separator)
    result = total.result()
    assert (result.num_texts, result.num_tokens) == (2, 11)
    expected = dict.fromkeys(STATISTICS, 0.0)
    for weights in texts:
        rows = weights[2].tolist()
        for query, row in enumerate(rows):
            expected["entropy"] -= sum(w * math.log2(w) for w in row) / 11
            expected["first"] += row[0] / 11
            expected["separator"] += row[-1] / 11
            expected["distance"] += sum(w * abs(key - query) for key, w in enumerate(row)) / 11
            if query:
                expected["previous"] += row[query - 1] / 9
            if query < len(row) - 1:
                expected["next"] += row[query + 1] / 9
    assert result.means[1, 2].tolist() == pytest.approx(list(expected.values()), rel=1e-5)
    assert not result.means[0].any()


def test_a_head_that_looks_at_the_previous_token_alone():
    weights = torch.diag(torch.ones(4), -1)[None]
    weights[0, 0, 0] = 1
    total = StatisticsSum(1, 1)
    total.add_lengths([5])
    total.add_weights(0, weights, torch.tensor([False] * 4 + [True]))
    named = dict(zip(STATISTICS, total.result().means[0, 0].tolist(), strict=True))
    assert named == {
        "entropy": 0, "previous": 1, "next": 0, "first": 0.4, "separator": 0, "distance": 0.8,
    }  # fmt: skip


def test_a_map_has_the_two_directions_of_most_variance():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(29, 2)) * [5, 2]
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0][:2]
    placed = project((flat @ turn + 3).astype(np.float32))
    assert sum(placed.explained) == pytest.approx(1)
    assert placed.explained[0] > placed.explained[1]
    between = np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    on_map = np.linalg.norm(placed.points[:, None] - placed.points[None], axis=-1)
    np.testing.assert_allclose(on_map, between, atol=1e-4)


@pytest.mark.parametrize("vectors", [np.ones((5, 3)), np.ones((1, 3)), np.ones((2, 1))])
def test_a_map_of_equal_vectors_is_a_point(vectors):
    placed = project(vectors.astype(np.float32))
    assert not placed.points.any()
    assert placed.explained == (0.0, 0.0)
