"""Every figure equals scikit-learn's exactly, on any labels."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.metrics import classification as metrics


@st.composite
def labelled(draw):
    num_classes = draw(st.integers(2, 7))
    size = draw(st.integers(1, 60))
    column = st.lists(st.integers(0, num_classes - 1), min_size=size, max_size=size)
    return np.array(draw(column)), np.array(draw(column)), num_classes


@settings(max_examples=40)
@given(labelled())
def test_per_class_figures_equal_scikit_learn(case):
    labels, predictions, num_classes = case
    confusion = metrics.confusion_matrix(labels, predictions, num_classes)
    expected = sklearn.metrics.confusion_matrix(labels, predictions, labels=range(num_classes))
    assert confusion.tolist() == expected.tolist()
    ours = metrics.class_scores(confusion)
    theirs = sklearn.metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(num_classes), zero_division=0
    )
    for mine, reference in zip(
        (ours.precision, ours.recall, ours.f1, ours.support), theirs, strict=True
    ):
        assert mine.tolist() == reference.tolist()


@settings(max_examples=40)
@given(labelled())
def test_summary_figures_equal_scikit_learn(case):
    labels, predictions, num_classes = case
    confusion = metrics.confusion_matrix(labels, predictions, num_classes)
    f1 = sklearn.metrics.f1_score
    assert metrics.accuracy(confusion) == sklearn.metrics.accuracy_score(labels, predictions)
    assert metrics.macro_f1(confusion) == f1(labels, predictions, average="macro", zero_division=0)
    assert metrics.micro_f1(confusion) == f1(labels, predictions, average="micro")
    ours = metrics.matthews_correlation(confusion)
    assert ours == pytest.approx(_scikit_learn_mcc(labels, predictions), abs=0, rel=0)


def _scikit_learn_mcc(labels, predictions):
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn warns that one class is no problem to score, then says 0
    return sklearn.metrics.matthews_corrcoef(labels, predictions)
