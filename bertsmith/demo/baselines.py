"""Two plain methods for comparison, scored on labelled paragraphs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.errors import ConfigError
from bertsmith.metrics.classification import accuracy, confusion_matrix, macro_f1


class Score(NamedTuple):
    """Accuracy and macro-F1, from 0 to 1."""

    accuracy: float
    macro_f1: float


def majority_class(train: Sequence[Example], test: Sequence[Example]) -> Score:
    """Score always answering the most frequent training label; on a tie the first by name."""
    counts = Counter(str(example.label) for example in train)
    best = min(counts, key=lambda label: (-counts[label], label))
    return score_labels([best] * len(test), test)


def tfidf_with_logistic_regression(train: Sequence[Example], test: Sequence[Example]) -> Score:
    """Score logistic regression on words and pairs of words, weighted by TF-IDF.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    model = build_tfidf()
    model.fit([example.text for example in train], [example.label for example in train])
    return score_labels(model.predict([example.text for example in test]), test)


def build_tfidf() -> Any:
    """Build the pipeline of TF-IDF and logistic regression, not yet fitted.

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


def score_labels(predicted: Sequence[str], test: Sequence[Example]) -> Score:
    true = [str(example.label) for example in test]
    labels = sorted({*true, *predicted})
    gold, found = (np.array([labels.index(name) for name in names]) for names in (true, predicted))
    confusion = confusion_matrix(gold, found, len(labels))
    return Score(accuracy(confusion), macro_f1(confusion))
