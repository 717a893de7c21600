"""The baseline of text classification: TF-IDF with logistic regression, by scikit-learn.

The method takes a few seconds at most. `bertsmith finetune` scores it beside a single model, and
not with --seeds, --folds or --teacher.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.classification import confusion_matrix
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.tasks.baseline import Baseline

# Within these limits on the data, the method takes about three seconds on one core.
MAX_TRAIN_CHARS = 1_000_000
MAX_EVAL_CHARS = 5_000_000
MAX_CLASSES = 100
MAX_WEIGHTS = 2_000_000
"""Largest number of weights: terms times classes."""

CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
WORD = rf"[{CHINESE}]|[^\W{CHINESE}]{{2,}}"
"""Pattern of a word: one Chinese character, since Chinese has no spaces, or else two letters or
more, which is scikit-learn's default."""


def score_tfidf(train: Sequence[Example], held_out: Sequence[Example]) -> Baseline | None:
    """Score logistic regression on words and pairs of neighbouring words.

    The method is fitted to training texts with at most `MAX_TRAIN_CHARS` characters in total, drawn
    at random. The result is None if scikit-learn is not installed, the texts are pairs, or there
    are too many eval texts or classes.
    """
    drawn = [train[index] for index in _draw(train)]
    targets = [str(example.label) for example in drawn]
    answers = _fit_and_predict(drawn, targets, held_out, len(set(targets)))
    if answers is None:
        return None
    gold = [str(example.label) for example in held_out]
    names = sorted({*gold, *answers.tolist()})
    number_of_name = {name: number for number, name in enumerate(names)}
    true = np.array([number_of_name[name] for name in gold])
    predicted = np.array([number_of_name[name] for name in answers])
    report = summarize(confusion_matrix(true, predicted, len(names)), names)
    scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
    return Baseline("tfidf", _describe_method(len(drawn), len(train)), scores)


def score_tfidf_of_several(
    train: Sequence[Example],
    held_out: Sequence[Example],
    flags: NDArray[np.bool_],
    gold: NDArray[np.bool_],
    labels: Sequence[str],
) -> Baseline | None:
    """Score a logistic regression for each of several labels, under the limits of `score_tfidf`.

    Args:
        flags: the labels of `train`, bool `[texts, labels]`.
        gold: the labels of `held_out`, bool `[texts, labels]`.
    """
    indices = _draw(train)
    drawn = [train[index] for index in indices]
    flags_of_drawn = flags[indices]
    # A label that all drawn texts have, or none, needs no regression.
    is_in_all = flags_of_drawn.all(0)
    is_varied = flags_of_drawn.any(0) & ~is_in_all
    targets = flags_of_drawn[:, is_varied].astype(np.int64)
    answers = _fit_and_predict(drawn, targets, held_out, targets.shape[1])
    if answers is None:
        return None
    predicted = np.broadcast_to(is_in_all, gold.shape).copy()
    predicted[:, is_varied] = answers.reshape(len(held_out), -1) > 0
    report = MultiLabelReport.of(LabelCounts.of(gold, predicted), labels)
    method = _describe_method(len(drawn), len(train), " for each label")
    return Baseline("tfidf", method, multi_label_scores(report))


def multi_label_scores(report: MultiLabelReport) -> dict[str, float]:
    """Return the scores of a report that baselines show, by their names."""
    return {name: getattr(report, name) for name in ("micro_f1", "macro_f1", "subset_accuracy")}


def _describe_method(num_drawn: int, num_train: int, addition: str = "") -> str:
    drawn = f" (of {num_drawn:,} of the {num_train:,} texts)" if num_drawn < num_train else ""
    return f"TF-IDF with logistic regression{addition}{drawn}"


def _fit_and_predict(
    train: Sequence[Example], targets: Any, held_out: Sequence[Example], num_classes: int
) -> NDArray[Any] | None:
    """Fit the method to `train`, and predict the labels of `held_out`.

    `targets` are the labels of `train`: a list of names, or a matrix of 0 and 1, `[texts, labels]`.
    The result has the same form. It is None if the method cannot be fitted, or the data exceed its
    limits.
    """
    has_pairs = any(example.pair is not None for example in train)
    if has_pairs or not 0 < num_classes <= MAX_CLASSES or _num_chars(held_out) > MAX_EVAL_CHARS:
        return None
    several = isinstance(targets, np.ndarray)  # a text may have several labels
    model = build_tfidf(MAX_WEIGHTS // num_classes, several=several)
    if model is None:
        return None
    try:
        model.fit([example.text for example in train], targets)
    except ValueError:  # no text has a word of two letters, or all have the same label
        return None
    return np.asarray(model.predict([example.text for example in held_out]))


def build_tfidf(
    max_features: int | None = None, *, several: bool = False, by_character: bool = False
) -> Any:
    """Build the pipeline of TF-IDF and logistic regression; None without scikit-learn.

    Args:
        max_features: the most frequent terms are counted, at most this many.
        several: fit a regression to each column of a matrix of 0 and 1.
        by_character: count all characters and pairs of them, not words.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.pipeline import make_pipeline
    except ImportError:
        return None
    vectorizer = TfidfVectorizer(
        analyzer="char" if by_character else "word",
        token_pattern=None if by_character else WORD,
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=max_features,
    )
    regression = LogisticRegression(C=10.0, max_iter=1000)
    return make_pipeline(vectorizer, OneVsRestClassifier(regression) if several else regression)


def _draw(examples: Sequence[Example]) -> NDArray[np.int64]:
    """Draw examples with at most `MAX_TRAIN_CHARS` characters in total; return their indices.

    All examples are taken, in their order, if they have no more characters.
    """
    if _num_chars(examples) <= MAX_TRAIN_CHARS:
        return np.arange(len(examples))
    order = np.random.default_rng(0).permutation(len(examples))
    total_chars = np.cumsum([len(examples[index].text) for index in order])
    return order[total_chars <= MAX_TRAIN_CHARS]


def _num_chars(examples: Sequence[Example]) -> int:
    return sum(len(example.text) for example in examples)
