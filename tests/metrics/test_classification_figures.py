"""Figures of labels equal scikit-learn's exactly, in portions too; calibration is the paper's."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.metrics import classification as metrics
from bertsmith.metrics.classification import NUM_BINS, Calibration
from bertsmith.metrics.multi_label import LabelCounts, label_scores

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
    scores = metrics.class_scores(confusion)
    by_class = theirs.precision_recall_fscore_support(
        labels, predictions, labels=range(num_classes), zero_division=0
    )
    for name, reference in zip(FIGURES, by_class, strict=True):
        assert getattr(scores, name).tolist() == reference.tolist()
    f1 = theirs.f1_score
    assert metrics.accuracy(confusion) == theirs.accuracy_score(labels, predictions)
    assert metrics.macro_f1(confusion) == f1(labels, predictions, average="macro", zero_division=0)
    assert metrics.micro_f1(confusion) == f1(labels, predictions, average="micro")
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


@given(flags(), st.integers(0, 50))
def test_figures_of_several_labels_equal_scikit_learns(pair, cut):
    true, predicted = pair
    counts = LabelCounts.of(true[:cut], predicted[:cut]) + LabelCounts.of(
        true[cut:], predicted[cut:]
    )
    assert counts.subset_accuracy == sklearn.metrics.accuracy_score(true, predicted)
    if true.shape[1] == 1:  # scikit-learn takes one column for two classes
        return
    for average in ("micro", "macro"):
        assert getattr(counts, f"{average}_f1") == sklearn.metrics.f1_score(
            true.astype(int), predicted.astype(int), average=average, zero_division=0
        )
    theirs = sklearn.metrics.precision_recall_fscore_support(true, predicted, zero_division=0)
    rows = label_scores(counts, tuple("abcdefg"[: true.shape[1]]))
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


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 99))
def test_the_calibration_error_is_the_papers(count, cut, seed):
    rng = np.random.default_rng(seed)
    confidences, right = rng.random(count), (rng.random(count) < 0.6).astype(float)
    found = Calibration()
    found.add(confidences[:cut], right[:cut])
    found.add(confidences[cut:], right[cut:])
    assert found.error == pytest.approx(error_by_the_formula(confidences, right))
    assert found.num_predictions == count
    bins = found.bins()
    assert sum(each.count for each in bins) == count
    assert [each.confidence for each in bins] == sorted(each.confidence for each in bins)
