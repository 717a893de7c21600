"""The cross-validation of a linear head scores predictions as the fitted head makes them."""

import numpy as np
import pytest

from bertsmith.finetuning.linear_fit import cross_validate
from bertsmith.tasks.logistic_regression import Features
from bertsmith.tasks.token_ngrams import SparseRows


@pytest.mark.parametrize(("threshold", "label"), [(0.999, 0.0), (0.001, 1.0)])
def test_a_text_has_the_labels_whose_probabilities_reach_the_threshold(threshold, label):
    rng = np.random.default_rng(0)
    num_texts = 23
    none = np.zeros(0, np.int64)
    counts = SparseRows(np.zeros(num_texts + 1, np.int64), none, none.astype(np.float32), 1)
    features = Features(rng.normal(size=(num_texts, 3)).astype(np.float32), counts)
    targets = (rng.random((num_texts, 2)) < 0.5).astype(np.float32)
    scores = cross_validate(
        features,
        targets,
        np.array_split(np.arange(num_texts), 3),
        strengths=(0.01,),  # all probabilities are close to the shares of the labels
        is_multi_label=True,
        threshold=threshold,
    )
    assert scores.accuracy == pytest.approx((targets == label).all(1).mean())
