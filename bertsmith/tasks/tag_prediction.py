"""Predicted labels of a sentence's words, the entities that they form, and file formats.

Labels follow a *scheme*, such as IOB2, in which B-PER begins a span of words of the type PER. In
the scheme "plain", a label describes one word, such as its part of speech. A label that breaks its
scheme, such as an I-PER after O in IOB2, is *illegal*; *repair* replaces it by a legal one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.json_rows import list_names
from bertsmith.data.label_schemes import Scheme, convert_labels, find_spans
from bertsmith.data.label_values import LabelKind, label_values
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.text_files import locate_row
from bertsmith.errors import InputError, option
from bertsmith.metrics.entities import TagCounts, TagReport
from bertsmith.system.notebook import html_lines, html_table
from bertsmith.tasks.marks import Mark, MarkedPart, color_of, mark_spans
from bertsmith.tasks.scoring import PredictionCounts
from bertsmith.tasks.tagged_text import conll_block, conllu_block, marked_text, span_types


class Entity(NamedTuple):
    """An entity in a text, from character `start` up to before `end`."""

    label: str
    text: str
    start: int
    end: int
    probability: float
    """Mean probability of its words' labels."""


@dataclass(frozen=True, eq=False)
class TagPrediction:
    """The labels of a sentence's words, and their probabilities.

    `label_names` are the predicted labels, one for each word. `names` are all labels that the model
    knows, and `probabilities` is float64 `[words, labels]` in their order. `is_repaired` is true if
    the likeliest labels broke the scheme, and `label_names` are legal labels instead.
    """

    sentence: TaggedSentence
    label_names: tuple[str, ...]
    probabilities: NDArray[np.float64]
    names: tuple[str, ...]
    scheme: Scheme
    num_windows: int = 1
    """Number of windows, overlapping parts, in which the sentence was read."""
    is_repaired: bool = False
    label_kind: LabelKind | None = None
    """The type that labels had in training; None if they were strings."""
    is_truncated: ClassVar[bool] = False  # long sentences are read in windows

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """The label of each word, of the type that labels had in training."""
        values = dict(zip(self.names, label_values(self.names, self.label_kind), strict=True))
        return tuple(values.get(name, name) for name in self.label_names)

    @property
    def answer(self) -> tuple[Any, ...]:
        return self.labels

    def to_json(self) -> dict[str, Any]:
        """Return labels, probabilities, offsets and entities.

        With the sentence's words added, the result can be read again as a labelled sentence.
        """
        entities = [entity._asdict() for entity in self.entities]
        return {
            "labels": list(self.labels),
            "probabilities": self.label_probabilities,
            "offsets": [list(offsets) for offsets in self.sentence.offsets],
            **({} if self.scheme == "plain" else {"entities": entities}),
            "num_windows": self.num_windows,
        }

    def line(self, example: TaggedSentence) -> Any:
        """Return the sentence with its entities marked, as a `Text` of the library rich."""
        return marked_text(example, self.label_names, self.scheme, self.names)

    def _repr_html_(self) -> str:
        if self.scheme == "plain":
            words = zip(self.words, self.label_names, self.label_probabilities, strict=True)
            rows = [(word, label, f"{probability:.4f}") for word, label, probability in words]
            return html_table(rows, ("word", "label", "probability"))
        rows = [
            (entity.text, entity.label, f"{entity.probability:.4f}") for entity in self.entities
        ]
        table = html_table(rows, ("entity", "type", "probability")) if rows else ""
        return html_lines([str(self.line(self.sentence))]) + table

    def parts(self) -> list[MarkedPart]:
        """Return the sentence with its spans marked, each type in a color, for an HTML page."""
        types = span_types(self.names, self.scheme)
        offsets = self.sentence.offsets
        marks = [
            Mark(offsets[first][0], offsets[stop - 1][1], label, color_of(label, types))
            for label, first, stop in find_spans(self.label_names, self.scheme)
        ]
        return mark_spans(self.sentence.text, marks)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were given, or into which the given text was split."""
        return self.sentence.words

    @property
    def label_probabilities(self) -> list[float]:
        """The probability of each word's label; 0 if the model does not know the label.

        Repair may introduce labels that the model does not know.
        """
        column_of_label = {name: column for column, name in enumerate(self.names)}
        rows = self.probabilities.tolist()
        return [
            row[column_of_label[label]] if label in column_of_label else 0.0
            for row, label in zip(rows, self.label_names, strict=True)
        ]

    @cached_property
    def entities(self) -> list[Entity]:
        """The entities in the text; empty if the labels are plain, without a scheme of spans."""
        if self.scheme == "plain":
            return []
        text = self.sentence.text
        offsets = self.sentence.offsets
        probabilities = self.label_probabilities
        entities = []
        for label, first, stop in find_spans(self.label_names, self.scheme):
            start, end = offsets[first][0], offsets[stop - 1][1]
            mean_probability = sum(probabilities[first:stop]) / (stop - first)
            entities.append(Entity(label, text[start:end], start, end, mean_probability))
        return entities


def conll(pairs: Iterable[tuple[TaggedSentence, TagPrediction]]) -> Iterator[str]:
    """Format sentences with predicted labels as columns, `word<TAB>label`."""
    for sentence, prediction in pairs:
        # `before`: the comments and marks of documents that stood before the sentence in its file.
        yield conll_block(sentence.words, prediction.label_names, sentence.before)


def conllu(pairs: Iterable[tuple[TaggedSentence, TagPrediction]]) -> Iterator[str]:
    """Format sentences with predicted labels as CoNLL-U."""
    return (conllu_block(sentence, prediction.label_names) for sentence, prediction in pairs)


class TagAccumulator(PredictionCounts):
    """Accumulator of spans and words.

    Args:
        labels: all labels that the model knows.
        scheme: the scheme of the predicted labels.
        path: the file of the examples, for messages.
        strict: count only spans that follow their scheme.
    """

    def __init__(
        self, labels: tuple[str, ...], scheme: Scheme, path: Path, *, strict: bool
    ) -> None:
        self.labels = labels
        self.scheme = scheme
        self.path = path
        self.tags = TagCounts(scheme, strict=strict)
        self.num_unknown = 0  # words whose gold label the model does not know

    def add(self, examples: Sequence[TaggedSentence], predictions: Sequence[TagPrediction]) -> None:
        """Add a chunk; a gold label that the model does not know counts as missed."""
        for sentence, prediction in zip(examples, predictions, strict=True):
            gold = with_scheme(sentence, self.scheme, self.path).labels
            # Remarks, such as "repaired", say how the sentence was read; the report counts them.
            self.tags.remarks.update(sentence.remarks)
            self.tags.remarks["repaired_predictions"] += prediction.is_repaired
            self.tags.add(sentence.labels, prediction.label_names, gold_scheme=sentence.scheme)
            numbers = label_numbers(gold, self.labels)
            words = np.flatnonzero(numbers >= 0)  # indices of words whose label the model knows
            prob_right = prediction.probabilities[words, numbers[words]]
            self.loss -= float(np.log(np.maximum(prob_right, np.finfo(np.float64).tiny)).sum())
            self.num_unknown += len(gold) - len(words)
        self.count(predictions)

    def compute_metrics(self) -> dict[str, float]:
        """Compute F1, macro F1, accuracy, and as `loss` the mean cross entropy.

        The cross entropy is averaged over the words whose gold label the model knows.
        """
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
            InputError: the model knows none of the gold labels.
        """
        num_words = self.tags.num_words
        if num_words and self.num_unknown == num_words:
            raise InputError(
                f"{self.path}: the model knows none of the labels in it. It knows "
                f"{list_names(self.labels)}. Choose the column with {option('label_column')}."
            )
        return self.tags.report(
            num_skipped=num_skipped, num_unknown=self.num_unknown, num_windowed=self.num_windowed
        )


def with_scheme(sentence: TaggedSentence, scheme: Scheme, path: Path) -> TaggedSentence:
    """Convert a sentence's labels to `scheme` if they follow another scheme.

    Args:
        path: the file of the sentence, for messages.

    Raises:
        InputError: the labels follow no scheme, or cannot be converted; names the row.
    """
    try:
        # Labels that have the scheme already are only checked.
        labels = convert_labels(sentence.labels, sentence.scheme, scheme)
    except InputError as error:
        raise InputError(f"{locate_row(path, sentence.row)}: {error.message}") from None
    if sentence.scheme == scheme:
        return sentence
    return replace(sentence, labels=tuple(labels), scheme=scheme)


def label_numbers(labels: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the index of each label in `names`, int64 `[words]`; -1 for an unknown label."""
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers.get(label, -1) for label in labels], dtype=np.int64)
