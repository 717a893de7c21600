"""Sentences in which each word has a label, such as `B-PER`, and remarks on how they were read.

A remark is a kind of correction, such as a line that was taken for a comment. Remarks are counted,
and reported with their counts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from bertsmith.data.label_schemes import Scheme
from bertsmith.tokenization.words import Offsets, join_words

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
        "empty node, which is not part of the text, was left out",
        "empty nodes, which are not part of the text, were left out",
    ),
    "misaligned_entities": (
        "entity began or ended within a word, and was extended to whole words",
        "entities began or ended within a word, and were extended to whole words",
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
"""Message for each kind of remark, which follows its count: for a count of one, and for others."""


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence and, if the file has them, their labels."""

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()
    row: int = 0
    """Line or row of the file at which the sentence begins, from 1; 0 if it is from no file."""
    text_and_offsets: tuple[str, tuple[Offsets, ...]] | None = None
    """The text of the sentence, and the offsets of each word in it; None if the file has only
    words."""
    scheme: Scheme = "plain"
    """Scheme of the labels, such as IOB2; in the plain one each label stands for one word."""
    remarks: tuple[Remark, ...] = ()
    """Corrections that were made while reading, each by its kind."""
    before: tuple[str, ...] = ()
    """Lines between the previous sentence and this one, if a CoNLL file is read for predictions."""
    template: str = ""
    """The lines of the sentence in a CoNLL-U file that is read for predictions, with a NUL in place
    of each label."""

    @property
    def content(self) -> tuple[str, ...]:
        """The input of a model; examples with equal inputs are duplicates."""
        return self.words

    def to_json(self) -> dict[str, Any]:
        """Return the line and the texts, as they are written beside a prediction."""
        return {"line": self.row, "text": self.text, "words": list(self.words)}

    @cached_property
    def _located(self) -> tuple[str, tuple[Offsets, ...]]:
        """Text and offsets as in the file, or those of the words joined by spaces."""
        if self.text_and_offsets is not None:
            return self.text_and_offsets
        text, offsets = join_words(self.words)
        return text, tuple(offsets)

    @property
    def text(self) -> str:
        """The text as it is in the file, or the words joined if the file has only words."""
        return self._located[0]

    @property
    def offsets(self) -> tuple[Offsets, ...]:
        """Start and end (exclusive) of each word in `text`, in characters."""
        return self._located[1]
