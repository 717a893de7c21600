"""Scores that a fine-tuned model has to beat: plain methods, fitted to the training examples.

They are kept cheap. The costly ones, which fit a model of words or load the encoder once more, are
left to a single run of the command; each of them takes a few seconds at most.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.tagged import TaggedSentence
from bertsmith.errors import BertsmithError, InputError
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.classification import confusion_matrix
from bertsmith.metrics.entities import TagCounts
from bertsmith.metrics.regression import pearson, spearman
from bertsmith.metrics.retrieval import unit_length
from bertsmith.system.compute import InferenceCompute
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.text_vectors import TextVectors

MAX_TRAIN_CHARS = 1_000_000
MAX_EVAL_CHARS = 5_000_000
MAX_CLASSES = 100
MAX_WEIGHTS = 2_000_000
"""Bounds of TF-IDF with logistic regression, which then takes about three seconds of one core."""
MAX_PAIRS = 1000
"""Pairs whose cosine is computed."""
BASELINE_SCORES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
}


@dataclass(frozen=True)
class Baseline:
    """Scores of a plain method on the eval examples, by their names in reports."""

    key: str
    method: str
    """The method in words."""
    scores: Mapping[str, float]
    answer: str | None = None
    """The one answer that is always given, where the method is that."""

    def __str__(self) -> str:
        scores = [
            f"{BASELINE_SCORES.get(name, name)} {score:.4f}" for name, score in self.scores.items()
        ]
        return f"baseline  {self.method}: {', '.join(scores)}"


def cheap_baselines(
    task: str, train: Sequence[Any], held_out: Sequence[Any], first_entry: Mapping[str, Any]
) -> list[Baseline]:
    """Score what needs no more than counting; `first_entry` is the first line of the journal."""
    if not (train and held_out):
        return []
    match task:
        case "classify" if all(isinstance(example.label, str) for example in [*train, *held_out]):
            return [score_majority(most_frequent(count_labels(train)), count_labels(held_out))]
        case "choose":
            return [_score_position(train, held_out)]
        case "tag":
            return _score_words(train, held_out)
        case "embed":
            return _score_before(first_entry)
    return []


def costly_baselines(
    task: str,
    train: Sequence[Any],
    held_out: Sequence[Any],
    model: Path,
    compute: InferenceCompute,
) -> list[Baseline]:
    """Score TF-IDF for texts with one label, if scikit-learn is there, and cosines for pairs."""
    if task == "classify" and all(isinstance(example.label, str) for example in train):
        baseline = score_tfidf(train, held_out)
    elif task == "regress" and held_out and held_out[0].pair is not None:
        baseline = _score_cosines(held_out, model, compute)
    else:
        baseline = None
    return [] if baseline is None else [baseline]


def most_frequent(counts: Mapping[str, int]) -> str:
    """Return the most frequent label, on a tie the first by name.

    >>> most_frequent({"b": 2, "a": 2, "c": 1})
    'a'
    """
    return min(counts, key=lambda label: (-counts[label], label))


def count_labels(examples: Iterable[Example]) -> Counter[str]:
    return Counter(str(example.label) for example in examples)


def score_majority(answer: str, gold: Mapping[str, int]) -> Baseline:
    """Score always giving one answer, by the number of examples of each gold label."""
    labels = sorted({*gold, answer})
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    for row, label in enumerate(labels):
        confusion[row, labels.index(answer)] = gold.get(label, 0)
    report = summarize(confusion, labels)
    scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
    return Baseline("majority", f"always {answer!r}", scores, answer)


class StoredMajority:
    """Counter of gold labels that scores the majority class of training on them.

    A callback of `evaluate`; `run` is the run.json of the model's folder.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        result = run.get("result")
        stored = result.get("baselines") if isinstance(result, Mapping) else None
        rows = [row for row in stored or () if isinstance(row, Mapping)]
        answers = [row.get("answer") for row in rows if row.get("key") == "majority"]
        self.answer = next((answer for answer in answers if isinstance(answer, str)), None)
        self._gold: Counter[str] = Counter()

    def see(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        self._gold.update(outcome.gold for outcome in outcomes)

    def baselines(self) -> list[Baseline]:
        """Return the score, or nothing where training told no majority class."""
        is_known = self.answer is not None and self._gold
        return [score_majority(self.answer or "", self._gold)] if is_known else []


def _score_position(train: Sequence[ChoiceExample], held_out: Sequence[ChoiceExample]) -> Baseline:
    counts = Counter(example.label for example in train if example.label is not None)
    best = min(counts, key=lambda place: (-counts[place], place))
    accuracy = float(np.mean([example.label == best for example in held_out]))
    return Baseline("majority", f"always choice number {best + 1}", {"accuracy": accuracy})


def _score_words(
    train: Sequence[TaggedSentence], held_out: Sequence[TaggedSentence]
) -> list[Baseline]:
    """Score giving each word the label that it most often has, others the most frequent one."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            counts[word][label] += 1
    usual = most_frequent(Counter(label for sentence in train for label in sentence.labels))
    best = {word: most_frequent(labels) for word, labels in counts.items()}
    scheme = train[0].scheme
    total = TagCounts(scheme)
    try:
        for sentence in held_out:
            answers = [best.get(word, usual) for word in sentence.words]
            total.add(sentence.labels, answers, gold_scheme=sentence.scheme)
    except InputError:  # the labels of one file cannot be written in the scheme of the other
        return []
    report = total.report()
    scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
    if scheme != "plain":
        scores = {"f1": report.f1, **scores}
    return [Baseline("words", "each word's most frequent label", scores)]


def _score_before(first_entry: Mapping[str, Any]) -> list[Baseline]:
    """Take the scores of the vectors before fine-tuning from the journal, if they are there."""
    prefix = "held_out_embed_"
    scores = {
        name.removeprefix(prefix): value
        for name, value in first_entry.items()
        if name.startswith(prefix) and not name.endswith(("_loss", "_score"))
    }
    method = "cosine of the vectors before fine-tuning"
    is_first = first_entry.get("step") == 0
    return [Baseline("cosine", method, scores)] if is_first and scores else []


def score_tfidf(train: Sequence[Example], held_out: Sequence[Example]) -> Baseline | None:
    """Score logistic regression on words and pairs of words, fitted to as many texts as fit in.

    None where scikit-learn is not installed, or the texts are too many or of too many classes.
    """
    fitted = _within(train, MAX_TRAIN_CHARS)
    num_classes = len({example.label for example in fitted})
    is_large = _num_chars(held_out) > MAX_EVAL_CHARS or num_classes > MAX_CLASSES
    if is_large or num_classes < 2 or any(example.pair is not None for example in fitted):
        return None
    model = build_tfidf(MAX_WEIGHTS // num_classes)
    if model is None:
        return None
    try:
        model.fit([example.text for example in fitted], [example.label for example in fitted])
    except ValueError:  # no text has a word of two letters
        return None
    gold = [str(example.label) for example in held_out]
    answers = [str(label) for label in model.predict([example.text for example in held_out])]
    names = sorted({*gold, *answers})
    numbers = {name: place for place, name in enumerate(names)}
    true, predicted = (np.array([numbers[name] for name in each]) for each in (gold, answers))
    report = summarize(confusion_matrix(true, predicted, len(names)), names)
    method = "TF-IDF with logistic regression"
    if len(fitted) < len(train):
        method += f" (of {len(fitted):,} of the {len(train):,} texts)"
    return Baseline("tfidf", method, {"accuracy": report.accuracy, "macro_f1": report.macro_f1})


def build_tfidf(max_features: int | None = None) -> Any:
    """Build the pipeline of TF-IDF and logistic regression; None without scikit-learn."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
    except ImportError:
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=max_features)
    return make_pipeline(vectorizer, LogisticRegression(C=10.0, max_iter=1000))


def _within(examples: Sequence[Example], max_chars: int) -> Sequence[Example]:
    """Draw examples, always the same, whose texts have `max_chars` characters at most."""
    if _num_chars(examples) <= max_chars:
        return examples
    order = np.random.default_rng(0).permutation(len(examples))
    ends = np.cumsum([len(examples[index].text) for index in order])
    return [examples[index] for index in order[: int((ends <= max_chars).sum())]]


def _num_chars(examples: Sequence[Example]) -> int:
    return sum(len(example.text) for example in examples)


def _score_cosines(
    held_out: Sequence[Example], model: Path, compute: InferenceCompute
) -> Baseline | None:
    """Score the cosine of the mean vectors of the model that was fine-tuned."""
    try:
        encoder = Predictor.load(
            model, TextVectors, device=compute.device, precision=compute.precision
        )
        pairs = held_out[:MAX_PAIRS]
        vectors = encoder.encode(
            [text for example in pairs for text in (example.text, example.pair or "")]
        )
    except BertsmithError:  # such as a folder with a pooling of its own; the run is complete
        return None
    units = unit_length(vectors).astype(np.float64)
    cosines = (units[0::2] * units[1::2]).sum(axis=1)
    gold = np.array([float(str(example.label)) for example in pairs], np.float64)
    method = "cosine of the model's mean vectors before fine-tuning"
    if len(pairs) < len(held_out):
        method += f" (of the first {len(pairs):,} pairs)"
    scores = {"pearson": pearson(gold, cosines), "spearman": spearman(gold, cosines)}
    return Baseline("cosine", method, scores)
