"""The plain methods whose scores are reported beside those of a model, for each task."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import Example
from bertsmith.data.json_rows import list_names
from bertsmith.data.labels import class_numbers, label_flags, numeric_labels
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.squad import Question
from bertsmith.data.tagged import TaggedSentence
from bertsmith.errors import InputError
from bertsmith.metrics.answers import Protocol, QuestionScores, units
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.entities import TagCounts
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.metrics.regression import rmse
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.counts import format_number
from bertsmith.tasks.baseline import Baseline, Baselines, most_frequent
from bertsmith.tasks.cosine_baseline import score_cosines
from bertsmith.tasks.tfidf import multi_label_scores, score_tfidf, score_tfidf_of_several

EXAMPLES = Path("examples")


class ClassBaselines(Baselines):
    """The most frequent label, and TF-IDF."""

    def gold_keys(self, task: Any, examples: Sequence[Example]) -> list[str]:
        return [task.labels[number] for number in class_numbers(examples, task.labels, EXAMPLES)]

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        labels = sorted({*gold, answer})
        confusion = np.zeros((len(labels), len(labels)), np.int64)
        for row, label in enumerate(labels):
            confusion[row, labels.index(answer)] = gold.get(label, 0)
        report = summarize(confusion, labels)
        scores = {"accuracy": report.accuracy, "macro_f1": report.macro_f1}
        return Baseline("majority", f"always {answer!r}", scores, answer)

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        baseline = score_tfidf(train, held_out)
        return [] if baseline is None else [baseline]


class MultiLabelBaselines(Baselines):
    """The most frequent set of labels, and TF-IDF for each label."""

    def gold_keys(self, task: Any, examples: Sequence[Example]) -> list[str]:
        """Write the labels of each text as a JSON list."""
        return [
            json.dumps([name for name, flag in zip(task.labels, row, strict=True) if flag])
            for row in _label_flags(task, examples)
        ]

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        names = json.loads(answer)
        true = np.array([np.isin(task.labels, json.loads(key)) for key in gold])
        true = np.repeat(true, list(gold.values()), axis=0)
        predicted = np.broadcast_to(np.isin(task.labels, names), true.shape)
        report = MultiLabelReport.of(LabelCounts.of(true, predicted), task.labels)
        method = f"always {list_names(names)}" if names else "always no label"
        return Baseline("majority", method, multi_label_scores(report), answer)

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        flags, gold = _label_flags(task, train), _label_flags(task, held_out)
        baseline = score_tfidf_of_several(train, held_out, flags, gold, task.labels)
        return [] if baseline is None else [baseline]


def _label_flags(task: Any, examples: Sequence[Example]) -> NDArray[np.bool_]:
    return label_flags(examples, task.labels, task.label_separator, EXAMPLES)


class ChoiceBaselines(Baselines):
    """The place among the choices that most often has the right one, such as always the first."""

    def gold_keys(self, task: Any, examples: Sequence[ChoiceExample]) -> list[str]:
        return [str(example.label) for example in examples]

    def score_constant(self, task: Any, answer: str, gold: Mapping[str, int]) -> Baseline:
        method = f"always choice number {int(answer) + 1}"
        return replace(super().score_constant(task, answer, gold), method=method)


class NumberBaselines(Baselines):
    """The mean of the training labels, and for pairs the cosine of the two texts' vectors.

    The mean is scored by RMSE alone, since a constant has no correlation with anything.
    """

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        before: Mapping[str, float],
    ) -> list[Baseline]:
        mean = float(numeric_labels(train, EXAMPLES).mean())
        gold = numeric_labels(held_out, EXAMPLES)
        method = f"always {format_number(mean)}, the mean of training"
        return [Baseline("mean", method, {"rmse": rmse(gold, np.full(len(gold), mean))})]

    def score_costly(
        self,
        task: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        model: Path,
        compute: InferenceCompute,
    ) -> list[Baseline]:
        if not held_out or held_out[0].pair is None:
            return []
        baseline = score_cosines(held_out, model, compute)
        return [] if baseline is None else [baseline]


class WordBaselines(Baselines):
    """The label that each word most often has in training; for a new word, the commonest label."""

    def score_cheap(
        self,
        task: Any,
        train: Sequence[TaggedSentence],
        held_out: Sequence[TaggedSentence],
        before: Mapping[str, float],
    ) -> list[Baseline]:
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


class AnswerBaselines(Baselines):
    """The start of the passage as the answer and, if some questions have none, always no answer.

    Both are easy to beat, like the random guess in SQuAD's paper (Rajpurkar et al. 2016, table 5),
    whose better methods need a parser.
    """

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Question],
        held_out: Sequence[Question],
        before: Mapping[str, float],
    ) -> list[Baseline]:
        is_chinese = task.language == "zh"
        gold = [answer.text for question in train for answer in question.answers]
        length = max(1, int(np.median([len(units(text, task.language)) for text in gold or ("",)])))
        starts = [
            question.context.strip()[:length]
            if is_chinese
            else " ".join(question.context.split(maxsplit=length)[:length])
            for question in held_out
        ]
        noun = "character" if is_chinese else "word"
        words = noun if length == 1 else f"{length} {noun}s"
        method = f"the first {words} of each passage"
        baselines = [_score_answers("start", method, starts, task, held_out)]
        if not all(question.answers for question in held_out):
            nothing = [""] * len(held_out)
            baselines.append(_score_answers("none", "never an answer", nothing, task, held_out))
        return baselines


def _score_answers(
    key: str, method: str, answers: Sequence[str], task: Any, held_out: Sequence[Question]
) -> Baseline:
    scores = QuestionScores(task.language)
    for answer, question in zip(answers, held_out, strict=True):
        scores.add(answer, [gold.text for gold in question.answers])
    protocol: Protocol = "2.0" if scores.has_unanswerable else "1.1"
    mean = scores.mean(scores.pairs(protocol), protocol)
    assert mean is not None
    return Baseline(key, method, {"exact_match": mean.exact_match, "f1": mean.f1})


class VectorBaselines(Baselines):
    """The vectors before fine-tuning."""

    def score_cheap(
        self,
        task: Any,
        train: Sequence[Any],
        held_out: Sequence[Any],
        before: Mapping[str, float],
    ) -> list[Baseline]:
        method = "cosine of the vectors before fine-tuning"
        return [Baseline("cosine", method, before)] if before else []
