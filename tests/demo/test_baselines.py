"""The plain methods do what their names say."""

import sys

import pytest

from bertsmith.data.examples import Example
from bertsmith.demo.baselines import majority_class, score, tfidf_with_logistic_regression
from bertsmith.errors import ConfigError

TRAIN = [
    Example("red apples and pears", label="fruit"),
    Example("green apples", label="fruit"),
    Example("a fast car", label="car"),
]
TEST = [Example("apples", label="fruit"), Example("the car", label="car")]


def test_majority_is_the_most_frequent_label() -> None:
    assert majority_class(TRAIN, TEST).accuracy == 0.5
    assert majority_class(TRAIN[1:], TEST) == majority_class(TRAIN[:0:-1], TEST)


def test_words_are_enough_for_words() -> None:
    assert tfidf_with_logistic_regression(TRAIN, TEST) == (1.0, 1.0)


def test_score_counts_labels_never_predicted() -> None:
    assert score(["car", "car"], TEST) == (0.5, pytest.approx(1 / 3))


def test_missing_scikit_learn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match=r"pip install 'bertsmith\[demo\]'"):
        tfidf_with_logistic_regression(TRAIN, TEST)
