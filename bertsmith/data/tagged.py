"""Sentences with a label per word."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from bertsmith.data.label_schemes import Scheme
from bertsmith.tokenization.words import Place, join_words

Remark = Literal[
    "comments",
    "multiword_tokens",
    "empty_nodes",
    "misaligned_entities",
    "unlocated_texts",
    "repaired",
    "repaired_predictions",
    "joined_documents",
]
REMARKS: dict[Remark, tuple[str, str]] = {
    "comments": (
        "line that begins with # was taken for a comment",
        "lines that begin with # were taken for comments",
    ),
    "multiword_tokens": (
        "multi-word token was read as the words it consists of",
        "multi-word tokens were read as the words they consist of",
    ),
    "empty_nodes": (
        "empty node, which stands nowhere in the text, was left out",
        "empty nodes, which stand nowhere in the text, were left out",
    ),
    "misaligned_entities": (
        "entity ended within a word, and was taken to its end",
        "entities ended within a word, and were taken to its end",
    ),
    "unlocated_texts": (
        "text does not hold all of its words; its offsets are those of the words joined by spaces",
        "texts do not hold all of their words; their offsets are those of the words joined by "
        "spaces",
    ),
    "repaired": (
        "sentence of the data had labels that break their scheme, and was repaired",
        "sentences of the data had labels that break their scheme, and were repaired",
    ),
    "repaired_predictions": (
        "sentence had predicted labels that break the scheme, and was repaired",
        "sentences had predicted labels that break the scheme, and were repaired",
    ),
    "joined_documents": (
        "line -DOCSTART- stood directly before words, and was taken for the mark of a document, "
        "not for a word",
        "lines -DOCSTART- stood directly before words, and were taken for the marks of documents, "
        "not for words",
    ),
}
"""Message for each kind of remark, behind a count of one and of several."""


@dataclass(frozen=True)
class TaggedSentence:
    """Words of a sentence and, where the file has them, their labels.

    `row` is its line in the file, from 1. `scheme` is that of the labels. `text_and_places`
    is the text that the words were found in and their places there; None where the file has words
    alone. `remarks` names each correction made while reading. `before` holds the lines between the
    sentence before it and its own, if a file of columns is read to be labelled; `template` the
    block of a CoNLL-U file, with a NUL for each label.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()
    row: int = 0
    text_and_places: tuple[str, tuple[Place, ...]] | None = None
    scheme: Scheme = "plain"
    remarks: tuple[Remark, ...] = ()
    before: tuple[str, ...] = ()
    template: str = ""

    @property
    def content(self) -> tuple[str, ...]:
        return self.words

    def to_json(self) -> dict[str, Any]:
        return {"line": self.row, "text": self.text, "words": list(self.words)}

    @cached_property
    def _located(self) -> tuple[str, tuple[Place, ...]]:
        if self.text_and_places is not None:
            return self.text_and_places
        text, places = join_words(self.words)
        return text, tuple(places)

    @property
    def text(self) -> str:
        """Text as it was given; of words that came alone, the words joined."""
        return self._located[0]

    @property
    def places(self) -> tuple[Place, ...]:
        """Start and end (exclusive) of each word in `text`, in characters."""
        return self._located[1]
