"""Two plain methods for comparison, scored on labelled paragraphs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.metrics.classification import accuracy, confusion_matrix, macro_f1
from bertsmith.tasks.baseline import most_frequent
from bertsmith.tasks.tfidf import build_tfidf


class Score(NamedTuple):
    """Accuracy and macro-F1, from 0 to 1."""

    accuracy: float
    macro_f1: float


def majority_class(train: Sequence[Example], test: Sequence[Example]) -> Score:
    """Score always answering the most frequent training label; on a tie the first by name."""
    counts = Counter(str(example.label) for example in train)
    return score_labels([most_frequent(counts)] * len(test), test)


def tfidf_with_logistic_regression(
    train: Sequence[Example], test: Sequence[Example]
) -> Score | None:
    """Score logistic regression on words and pairs of words; None without scikit-learn."""
    if (model := build_tfidf()) is None:
        return None
    model.fit([example.text for example in train], [example.label for example in train])
    return score_labels(model.predict([example.text for example in test]), test)


def score_labels(predicted: Sequence[str], test: Sequence[Example]) -> Score:
    true = [str(example.label) for example in test]
    labels = sorted({*true, *predicted})
    gold, found = (np.array([labels.index(name) for name in names]) for names in (true, predicted))
    confusion = confusion_matrix(gold, found, len(labels))
    return Score(accuracy(confusion), macro_f1(confusion))
