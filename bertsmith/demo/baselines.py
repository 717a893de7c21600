"""What a model must beat: labelled paragraphs in, the scores of two plain methods out."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.errors import ConfigError
from bertsmith.metrics.classification import accuracy, confusion_matrix, macro_f1


class Score(NamedTuple):
    """How many of the answers are right, and the mean F1 of the classes; both from 0 to 1."""

    accuracy: float
    macro_f1: float


def majority_class(train: Sequence[Example], test: Sequence[Example]) -> Score:
    """Always the label that is most frequent in training; on a tie the first by name."""
    counts = Counter(str(example.label) for example in train)
    best = min(counts, key=lambda label: (-counts[label], label))
    return score([best] * len(test), test)


def tfidf_with_logistic_regression(train: Sequence[Example], test: Sequence[Example]) -> Score:
    """Words and pairs of words, weighted by TF-IDF, under scikit-learn's logistic regression.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    model = build_tfidf()
    model.fit([example.text for example in train], [example.label for example in train])
    return score(model.predict([example.text for example in test]), test)


def build_tfidf() -> Any:
    """The pipeline, not yet fitted.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
    except ModuleNotFoundError:
        raise ConfigError(
            "scikit-learn: not installed, and the demo compares itself with a method of it. "
            "Run: pip install 'bertsmith[demo]'"
        ) from None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(vectorizer, LogisticRegression(C=10.0, max_iter=1000))


def score(predicted: Sequence[str], test: Sequence[Example]) -> Score:
    """Accuracy and macro-F1 of predicted labels."""
    true = [str(example.label) for example in test]
    numbers = {label: i for i, label in enumerate(sorted({*true, *predicted}))}
    confusion = confusion_matrix(
        np.array([numbers[label] for label in true]),
        np.array([numbers[label] for label in predicted]),
        len(numbers),
    )
    return Score(accuracy(confusion), macro_f1(confusion))
