"""Scores of labelled words, and the scheme in which labels are compared."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.label_schemes import Scheme, convert_labels
from bertsmith.data.tagged import TaggedSentence
from bertsmith.errors import InputError
from bertsmith.metrics.entities import TagCounts, TagReport
from bertsmith.tasks.tag_prediction import TagPrediction


class TagAccumulator:
    """Accumulator of spans and words."""

    def __init__(
        self, labels: tuple[str, ...], scheme: Scheme, place: Path, *, strict: bool
    ) -> None:
        self.labels = labels
        self.scheme = scheme
        self.place = place
        self.counts = TagCounts(scheme, strict=strict)
        self.loss = 0.0
        self.num_unknown = self.num_windowed = 0

    def add(self, examples: Sequence[TaggedSentence], predictions: Sequence[TagPrediction]) -> None:
        """Add a portion; a label unknown to the model counts as missed."""
        for sentence, prediction in zip(examples, predictions, strict=True):
            gold = with_scheme(sentence, self.scheme, self.place).labels
            self.counts.remarks.update(sentence.remarks)
            self.counts.remarks["repaired_predictions"] += prediction.is_repaired
            self.num_windowed += prediction.num_windows > 1
            self.counts.add(sentence.labels, prediction.labels, gold_scheme=sentence.scheme)
            numbers = label_numbers(gold, self.labels)
            known = np.flatnonzero(numbers >= 0)
            right = prediction.probabilities[known, numbers[known]]
            self.loss -= float(np.log(np.maximum(right, np.finfo(np.float64).tiny)).sum())
            self.num_unknown += len(gold) - len(known)

    def figures(self) -> dict[str, float]:
        """Compute the scores of `Metric`, and mean cross entropy over known labels."""
        report = self.result()
        return {
            "loss": self.loss / max(1, report.num_words - self.num_unknown),
            "f1": report.f1,
            "macro_f1": report.macro_f1,
            "accuracy": report.accuracy,
        }

    def result(self, num_skipped: int = 0) -> TagReport:
        """Compute all scores.

        Raises:
            InputError: the model knows none of the labels.
        """
        num_words = self.counts.num_words
        if num_words and self.num_unknown == num_words:
            raise InputError(
                f"{self.place}: the model knows none of the labels in it. It knows "
                f"{quoted(self.labels)}. Choose the column with --label-column."
            )
        return self.counts.report(
            num_skipped=num_skipped, num_unknown=self.num_unknown, num_windowed=self.num_windowed
        )


def with_scheme(sentence: TaggedSentence, scheme: Scheme, place: Path) -> TaggedSentence:
    """Convert a sentence's labels to `scheme`, if they are in another.

    Raises:
        InputError: the labels follow no scheme, or cannot be converted; names the place.
    """
    try:
        labels = convert_labels(sentence.labels, sentence.scheme, scheme)
    except InputError as error:
        raise InputError(f"{place}:{sentence.row}: {error}") from None
    if sentence.scheme == scheme:
        return sentence
    return replace(sentence, labels=tuple(labels), scheme=scheme)


def label_numbers(labels: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the places of labels in `names`, int64 `[words]`; -1 for an unknown label."""
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers.get(label, -1) for label in labels], dtype=np.int64)


def quoted(names: Sequence[str]) -> str:
    """Join label names for a message; at most ten are shown."""
    more = f", … ({len(names)} in all)" if len(names) > 10 else ""
    return ", ".join(f"'{name}'" for name in names[:10]) + more
