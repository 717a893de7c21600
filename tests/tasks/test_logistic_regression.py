"""Logistic regression beside scikit-learn's."""

import numpy as np
import pytest

from bertsmith.tasks.logistic_regression import Features, fit, mean_loss
from bertsmith.tasks.token_ngrams import SparseRows

SPARSE, DENSE, TEXTS = 30, 6, 120


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(TEXTS, SPARSE)) * (rng.random((TEXTS, SPARSE)) < 0.2)
    matrix[5] = 0  # a text without entries
    rows, columns = matrix.nonzero()
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=TEXTS))])
    values = matrix[rows, columns].astype(np.float32)
    dense = rng.normal(size=(TEXTS, DENSE)).astype(np.float32)
    return Features(dense, SparseRows(starts, columns, values, SPARSE)), np.hstack([dense, matrix])


def gold(matrix, num_labels, seed=1):
    """Labels that depend on the features, but not on them alone."""
    rng = np.random.default_rng(seed)
    scores = matrix @ rng.normal(size=(matrix.shape[1], num_labels))
    return scores + rng.gumbel(size=scores.shape)


@pytest.mark.parametrize("c", [0.1, 10.0])
@pytest.mark.parametrize("num_labels", [2, 3])
def test_probabilities_are_those_of_scikit_learn(features, num_labels, c):
    linear_model = pytest.importorskip("sklearn.linear_model")
    ours, matrix = features
    labels = gold(matrix, num_labels).argmax(1)
    targets = np.eye(num_labels, dtype=np.float32)[labels]
    logits = fit(ours, targets, c, is_multi_label=False).logits(ours)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    # scikit-learn has one weight for two labels, whose penalty is half of that of our two.
    theirs = linear_model.LogisticRegression(C=2 * c if num_labels == 2 else c, max_iter=5000)
    theirs.fit(matrix, labels)
    np.testing.assert_allclose(shares, theirs.predict_proba(matrix), atol=5e-3)
    assert (shares.argmax(1) == theirs.predict(matrix)).mean() > 0.98


def test_a_penalty_of_biases_is_that_of_a_constant_feature(features):
    linear_model = pytest.importorskip("sklearn.linear_model")
    ours, matrix = features
    labels = np.minimum(gold(matrix, 3).argmax(1), np.arange(TEXTS) % 3)  # label 0 is the commonest
    targets = np.eye(3, dtype=np.float32)[labels]
    c, variance = 3.0, 0.25
    weights = fit(ours, targets, c, is_multi_label=False, bias_variance=variance)
    logits = weights.logits(ours)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    constant = np.full((TEXTS, 1), np.sqrt(variance / c))
    theirs = linear_model.LogisticRegression(C=c, max_iter=5000, fit_intercept=False)
    theirs.fit(np.hstack([matrix, constant]), labels)
    np.testing.assert_allclose(
        shares, theirs.predict_proba(np.hstack([matrix, constant])), atol=5e-3
    )
    free = fit(ours, targets, c, is_multi_label=False)
    assert np.abs(weights.bias).max() < 0.8 * np.abs(free.bias).max()


def test_several_labels_are_decisions_of_their_own(features):
    linear_model = pytest.importorskip("sklearn.linear_model")
    ours, matrix = features
    targets = (gold(matrix, 3) > 0).astype(np.float32)
    logits = fit(ours, targets, 1.0, is_multi_label=True).logits(ours)
    for label in range(3):
        theirs = linear_model.LogisticRegression(C=1.0, max_iter=5000)
        theirs.fit(matrix, targets[:, label])
        np.testing.assert_allclose(logits[:, label], theirs.decision_function(matrix), atol=0.03)


def test_weights_of_classes_are_those_of_scikit_learn(features):
    linear_model = pytest.importorskip("sklearn.linear_model")
    ours, matrix = features
    labels = gold(matrix, 3).argmax(1)
    weights = np.array([0.2, 1.0, 5.0], dtype=np.float32)
    targets = np.eye(3, dtype=np.float32)[labels]
    importance = weights[labels][:, None]
    logits = fit(ours, targets, 1.0, is_multi_label=False, importance=importance).logits(ours)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    by_class = dict(enumerate(weights.tolist()))
    theirs = linear_model.LogisticRegression(C=1.0, max_iter=5000, class_weight=by_class)
    np.testing.assert_allclose(shares, theirs.fit(matrix, labels).predict_proba(matrix), atol=5e-3)
    loss = mean_loss(logits, targets, is_multi_label=False, importance=importance)
    written = -(importance[:, 0] * np.log(shares[np.arange(TEXTS), labels])).mean()
    assert loss == pytest.approx(written, rel=1e-5)


def test_weights_of_several_labels_count_where_a_label_is_present(features):
    linear_model = pytest.importorskip("sklearn.linear_model")
    ours, matrix = features
    targets = (gold(matrix, 2) > 0).astype(np.float32)
    importance = 1 + (np.array([4.0, 0.5], dtype=np.float32) - 1) * targets
    logits = fit(ours, targets, 1.0, is_multi_label=True, importance=importance).logits(ours)
    for label, weight in enumerate((4.0, 0.5)):
        theirs = linear_model.LogisticRegression(C=1.0, max_iter=5000, class_weight={1: weight})
        theirs.fit(matrix, targets[:, label])
        np.testing.assert_allclose(logits[:, label], theirs.decision_function(matrix), atol=0.06)


def test_the_start_does_not_change_the_solution(features):
    ours, matrix = features
    targets = np.eye(3, dtype=np.float32)[gold(matrix, 3).argmax(1)]
    other = fit(ours, targets, 100.0, is_multi_label=False)
    fresh = fit(ours, targets, 1.0, is_multi_label=False).logits(ours)
    warm = fit(ours, targets, 1.0, is_multi_label=False, start=other).logits(ours)
    np.testing.assert_allclose(warm, fresh, atol=0.02)


def test_the_loss_is_the_mean_cross_entropy():
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], np.float32))
    targets = np.eye(3, dtype=np.float32)[[0, 1]]
    expected = -(np.log(0.5) + np.log(0.8)) / 2
    assert mean_loss(logits, targets, is_multi_label=False) == pytest.approx(expected, rel=1e-6)
    flags = np.array([[1, 0, 1]], np.float32)
    zero = np.zeros((1, 3), np.float32)
    assert mean_loss(zero, flags, is_multi_label=True) == pytest.approx(3 * np.log(2), rel=1e-6)
