"""Predicted labels of a sentence's words, their entities, and the formats of both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text as RichText

from bertsmith.data.label_schemes import Scheme, find_spans
from bertsmith.data.tagged import TaggedSentence
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

    `probabilities` is float64 `[words, labels]`, in the order of `names`. `is_repaired` is true if
    the likeliest labels broke the scheme, so that `labels` are others.
    """

    sentence: TaggedSentence
    labels: tuple[str, ...]
    probabilities: NDArray[np.float64]
    names: tuple[str, ...]
    scheme: Scheme
    num_windows: int = 1
    is_repaired: bool = False
    is_truncated: ClassVar[bool] = False  # long sentences are read in windows

    @property
    def answer(self) -> tuple[str, ...]:
        return self.labels

    def to_json(self) -> dict[str, Any]:
        """Return labels, probabilities, offsets and entities.

        With the words they can be read again as labelled words.
        """
        entities = [entity._asdict() for entity in self.entities]
        return {
            "labels": list(self.labels),
            "probabilities": self.label_probabilities,
            "offsets": [list(place) for place in self.sentence.places],
            **({} if self.scheme == "plain" else {"entities": entities}),
            "num_windows": self.num_windows,
        }

    def line(self, example: TaggedSentence) -> RichText:
        """Format the text with marked entities, or plain labels behind words."""
        types = span_types(self.names, self.scheme)
        return marked_text(example, self.labels, self.scheme, types)

    @property
    def words(self) -> tuple[str, ...]:
        """The given words, or those found in the given text."""
        return self.sentence.words

    @property
    def label_probabilities(self) -> list[float]:
        """The probability of each word's label; 0 where unknown to the model.

        Repair may introduce such labels.
        """
        numbers = {name: number for number, name in enumerate(self.names)}
        rows = self.probabilities.tolist()
        return [
            row[numbers[label]] if label in numbers else 0.0
            for row, label in zip(rows, self.labels, strict=True)
        ]

    @cached_property
    def entities(self) -> list[Entity]:
        """The entities in the original text; empty for plain labels."""
        if self.scheme == "plain":
            return []
        text, places = self.sentence.text, self.sentence.places
        sure = self.label_probabilities
        found = []
        for label, first, last in find_spans(self.labels, self.scheme):
            start, end = places[first][0], places[last - 1][1]
            mean = sum(sure[first:last]) / (last - first)
            found.append(Entity(label, text[start:end], start, end, mean))
        return found


def conll(pairs: Iterable[tuple[TaggedSentence, TagPrediction]]) -> Iterator[str]:
    """Format each sentence as CoNLL columns."""
    for sentence, prediction in pairs:
        yield conll_block(sentence.words, prediction.labels, sentence.before)


def conllu(pairs: Iterable[tuple[TaggedSentence, TagPrediction]]) -> Iterator[str]:
    """Format each sentence as CoNLL-U."""
    return (conllu_block(sentence, prediction.labels) for sentence, prediction in pairs)
