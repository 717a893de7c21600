"""scikit-learn's own checks of estimators, of numbers that are written as texts.

Its checks make tables of numbers, and skip estimators that take none; so a classifier here writes
each row of them as a text, and does nothing else.
"""

import functools
import warnings

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from tiny_models import save_tiny

import bertsmith

SETTINGS = {"steps": 1, "threads": 1, "device": "cpu", "precision": "fp32", "verbose": 0,
            "batch_size": 4, "max_length": 16}  # fmt: skip
SPARSE = "a matrix with few numbers is no text"
NOT_FOR_TEXTS = {
    "check_array_api_input": "arrays of other libraries hold no texts",
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
    "check_estimator_sparse_tag": SPARSE,
    "check_fit2d_1sample": "its message is ours: the only label is '1', and theirs is expected",
    "check_parameters_default_constructible": "there is no default of the model to begin with",
}


class ClassifierOfNumbers(bertsmith.TextClassifier):
    """Classifies rows of numbers as the texts that they are written as."""

    def fit(self, X, y=None):
        return super().fit(as_texts(X), y, eval=None)

    def predict(self, X):
        return super().predict(as_texts(X))

    def predict_proba(self, X):
        return super().predict_proba(as_texts(X))

    def score(self, X, y=None):
        return super().score(as_texts(X), y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = False
        tags.input_tags.two_d_array = True
        tags.classifier_tags.poor_score = True  # after a step
        return tags


def as_texts(X):
    return [" ".join(f"{value:.2f}" for value in row) for row in np.asarray(X)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm"))


def checks():
    """Yield a parameter for each check, those that cannot apply left out."""
    left_out = set(NOT_FOR_TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the class is not derived from theirs
        pairs = list(estimator_checks.estimator_checks_generator(ClassifierOfNumbers("none")))
    for _, check in pairs:
        options = check.keywords if isinstance(check, functools.partial) else {}
        name = getattr(check, "func", check).__name__
        if name in NOT_FOR_TEXTS:
            left_out.discard(name)
        else:
            yield pytest.param(check, id="-".join([name, *map(str, options)]))
    assert not left_out  # a check that is gone needs no reason


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("check", list(checks()))
def test_check_of_scikit_learn(model, check):
    check(ClassifierOfNumbers(model, **SETTINGS))


class Column:
    """A column that numpy reads, and nothing else."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values)


def test_columns_that_only_numpy_reads(model):
    texts = ["good film", "bad film"] * 4
    classifier = bertsmith.TextClassifier(model, **SETTINGS)
    classifier.fit(Column(texts), Column(["a", "b"] * 4), eval=None)
    assert classifier.predict(Column(texts)).shape == (8,)
