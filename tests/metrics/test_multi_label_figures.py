"""Every figure equals scikit-learn's exactly, in portions too."""

import numpy as np
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.metrics.multi_label import LabelCounts, label_scores


@st.composite
def flags(draw):
    shape = draw(st.integers(1, 50)), draw(st.integers(1, 7))
    seed, share = draw(st.integers(0, 99)), draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    rng = np.random.default_rng(seed)
    return rng.random(shape) < share, rng.random(shape) < 0.4


@given(flags(), st.integers(0, 50))
def test_figures_equal_scikit_learns(pair, cut):
    true, predicted = pair
    counts = LabelCounts.of(true[:cut], predicted[:cut]) + LabelCounts.of(
        true[cut:], predicted[cut:]
    )

    def f1(average):
        return sklearn.metrics.f1_score(
            true.astype(int), predicted.astype(int), average=average, zero_division=0
        )

    assert counts.subset_accuracy == sklearn.metrics.accuracy_score(true, predicted)
    if true.shape[1] == 1:  # scikit-learn takes one column for two classes
        return
    assert counts.micro_f1 == f1("micro")
    assert counts.macro_f1 == f1("macro")
    theirs = sklearn.metrics.precision_recall_fscore_support(true, predicted, zero_division=0)
    rows = label_scores(counts, tuple("abcdefg"[: true.shape[1]]))
    for i, name in enumerate(("precision", "recall", "f1", "support")):
        assert [getattr(row, name) for row in rows] == theirs[i].tolist()
