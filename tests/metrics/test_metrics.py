"""Figures are scikit-learn's and scipy's, in portions too; calibration is that of the paper."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bertsmith.metrics import classification as metrics
from bertsmith.metrics import retrieval
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.classification import NUM_BINS, Calibration
from bertsmith.metrics.differences import Difference, differences, t_quantile, t_share
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.metrics.regression import SimilarityReport, pearson, rmse, spearman
from bertsmith.metrics.retrieval import ranks_of, retrieval_scores

FIGURES = ("precision", "recall", "f1", "support")


@st.composite
def labelled(draw):
    num_classes = draw(st.integers(2, 7))
    size = draw(st.integers(1, 60))
    column = st.lists(st.integers(0, num_classes - 1), min_size=size, max_size=size)
    return np.array(draw(column)), np.array(draw(column)), num_classes


@settings(max_examples=40)
@given(labelled())
def test_figures_of_classes_equal_scikit_learns(case):
    labels, predictions, num_classes = case
    theirs = sklearn.metrics
    confusion = metrics.confusion_matrix(labels, predictions, num_classes)
    expected = theirs.confusion_matrix(labels, predictions, labels=range(num_classes))
    assert confusion.tolist() == expected.tolist()
    report = summarize(confusion, tuple("abcdefg"[:num_classes]))
    by_class = theirs.precision_recall_fscore_support(
        labels, predictions, labels=range(num_classes), zero_division=0
    )
    for name, reference in zip(FIGURES, by_class, strict=True):
        assert [getattr(row, name) for row in report.classes] == reference.tolist()
    f1 = theirs.f1_score
    assert report.accuracy == theirs.accuracy_score(labels, predictions)
    assert report.macro_f1 == f1(labels, predictions, average="macro", zero_division=0)
    assert report.micro_f1 == f1(labels, predictions, average="micro")
    correlation = 0.0  # of one class, of which scikit-learn warns, then says 0
    if len(np.union1d(labels, predictions)) > 1:
        correlation = theirs.matthews_corrcoef(labels, predictions)
    assert metrics.matthews_correlation(confusion) == correlation


@st.composite
def flags(draw):
    shape = draw(st.integers(1, 50)), draw(st.integers(1, 7))
    seed, share = draw(st.integers(0, 99)), draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    rng = np.random.default_rng(seed)
    return rng.random(shape) < share, rng.random(shape) < 0.4


@settings(max_examples=40)
@given(flags(), st.integers(0, 50))
def test_figures_of_several_labels_equal_scikit_learns(pair, cut):
    true, predicted = pair
    counts = LabelCounts.of(true[:cut], predicted[:cut]) + LabelCounts.of(
        true[cut:], predicted[cut:]
    )
    report = MultiLabelReport.of(counts, tuple("abcdefg"[: true.shape[1]]))
    assert report.subset_accuracy == sklearn.metrics.accuracy_score(true, predicted)
    if true.shape[1] == 1:  # scikit-learn takes one column for two classes
        return
    for average in ("micro", "macro"):
        assert getattr(report, f"{average}_f1") == sklearn.metrics.f1_score(
            true.astype(int), predicted.astype(int), average=average, zero_division=0
        )
    theirs = sklearn.metrics.precision_recall_fscore_support(true, predicted, zero_division=0)
    rows = report.classes
    for name, reference in zip(FIGURES, theirs, strict=True):
        assert [getattr(row, name) for row in rows] == reference.tolist()


def error_by_the_formula(confidences, right):
    """Guo et al. 2017, eq. 2 and 3, bin by bin; bins are open below and closed above."""
    total = 0.0
    for number in range(NUM_BINS):
        low, high = number / NUM_BINS, (number + 1) / NUM_BINS
        inside = (confidences > low) & (confidences <= high)
        if inside.any():
            distance = abs(right[inside].mean() - confidences[inside].mean())
            total += inside.sum() / len(right) * distance
    return total


@settings(max_examples=40)
@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 99))
def test_the_calibration_error_is_the_papers(count, cut, seed):
    rng = np.random.default_rng(seed)
    confidences, right = rng.random(count), (rng.random(count) < 0.6).astype(float)
    found = Calibration()
    found.add(confidences[:cut], right[:cut])
    found.add(confidences[cut:], right[cut:])
    assert found.error == pytest.approx(error_by_the_formula(confidences, right))
    assert found.num_predictions == sum(each.count for each in found.bins()) == count


@pytest.mark.parametrize("unit", [1.0, 1e150, 1e300, 1e-200])
def test_correlations_are_scipys_to_the_last_bit_in_any_unit(unit):
    generator = np.random.default_rng(0)
    for length in [2, 3, *range(5, 400, 47), 4001]:
        true, noise = generator.normal(size=(2, length))
        for predicted in (noise, true, true + noise / 100, np.round(noise), -np.sort(true)):
            right, found = true * unit, predicted * unit
            if np.ptp(found) == 0:
                continue
            assert pearson(right, found) == stats.pearsonr(right, found).statistic
            assert spearman(right, found) == stats.spearmanr(right, found).statistic


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), min_size=2, max_size=60))
def test_pairs_with_a_yes_or_no_are_classified_by_their_cosines(pairs):
    cosines, labels = np.array(pairs).T
    report, said = SimilarityReport.of(labels, cosines), cosines >= 0.5
    assert report.accuracy == sklearn.metrics.accuracy_score(labels, said)
    assert report.f1 == sklearn.metrics.f1_score(labels, said, zero_division=0)


def test_a_constant_far_from_zero_has_no_correlation():
    assert pearson(np.full(7, 0.1) * 3, np.arange(7.0)) == 0.0
    assert spearman(np.arange(7.0), np.full(7, 1e9)) == 0.0


def test_the_error_has_the_unit_of_the_numbers():
    assert rmse(np.array([1.0, 2.0]), np.array([4.0, 6.0])) == pytest.approx(np.sqrt((9 + 16) / 2))


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


@pytest.mark.parametrize("count", [1, retrieval.MANY_RELEVANT + 1])
def test_of_equal_documents_the_earlier_ranks_higher(count):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 9, 499).astype(np.float32)
    places = rng.permutation(499)[:count]
    order = np.argsort(-scores, kind="stable").tolist()
    assert ranks_of(scores, places).tolist() == [1 + order.index(place) for place in places]


def test_vectors_of_nan_find_nothing():
    vectors = np.eye(7, dtype=np.float32)
    broken = vectors.copy()
    broken[2] = np.nan
    relevant = [[index] for index in range(7)]
    for queries, documents in ((broken, vectors), (vectors, broken)):
        scores = retrieval_scores(queries, documents, relevant, ks=(1,))
        assert scores.recall[1] == pytest.approx(6 / 7)
        assert scores.mrr < 1
    scores = retrieval_scores(vectors * np.nan, vectors * np.nan, relevant, ks=(1,))
    assert scores.recall[1] == pytest.approx(1 / 7)  # as by guessing


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 11, 12, 101])
def test_student_equals_scipy(freedom):
    for t in (0.0, 0.1, 0.7, 1.3, 2.9, 7.1, 41.0):
        expected = 1 - 2 * stats.t.sf(t, freedom)
        assert t_share(t, freedom) == pytest.approx(expected, abs=1e-13)
    for share in (0.0, 0.5, 0.95, 0.99, 0.9975):
        expected = stats.t.ppf((1 + share) / 2, freedom)
        assert t_quantile(share, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_of_several_the_noise_is_that_of_all():
    """Against the analysis of variance written out as a regression on recipes and seeds."""
    values = np.random.default_rng(1).normal(size=(4, 3)) + np.arange(3) * 5
    recipe, seed = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    columns = [np.ones(12), *(recipe == r for r in (1, 2, 3)), *(seed == s for s in (1, 2))]
    design = np.stack(columns, axis=1).astype(float)
    weights, (squares,), _, _ = np.linalg.lstsq(design, values.ravel(), rcond=None)
    covariance = squares / 6 * np.linalg.inv(design.T @ design)
    for place, found in enumerate(differences(values), start=1):
        error = np.sqrt(covariance[place, place])
        assert found.mean == pytest.approx(weights[place])
        assert found.high == pytest.approx(
            weights[place] + error * stats.t.ppf(1 - 0.05 / 3 / 2, 6)
        )
        p = min(1, 3 * 2 * stats.t.sf(abs(weights[place]) / error, 6))
        assert found.p == pytest.approx(p)
        assert found.is_clear == (p < 0.05)


def test_without_spread_nothing_is_known_of_noise():
    # Three thirds do not add up to one: what is left over is rounding, no noise.
    for first in (1.0, 1 / 3):
        (same, other) = differences(np.array([[first, 2.0], [first, 2.0], [first + 1, 3.0]]))
        assert (same, other) == (Difference(pytest.approx(0)), Difference(pytest.approx(1)))
        assert not other.is_clear
    (single,) = differences(np.array([[1.0], [3.0]]))
    assert single == Difference(2.0)
    assert not single.is_clear
