"""Rows of running text, each a window of one document, for training other systems than BERT.

A row is a function of (corpus, seed, number), as in the pre-training of a BERT. So a run can be
resumed at any step and divided among any number of processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.pretraining.segments import Anchors, Segments, windows_around


@dataclass(frozen=True)
class TextWindow:
    """The ids of some consecutive tokens of a document, int64 [tokens], without special tokens."""

    ids: np.ndarray
    is_start: bool
    """Whether the document begins here."""
    is_end: bool
    """Whether the document ends here."""


class TextWindows:
    """The rows of a split: windows of at most `length` tokens around positions in random order.

    Args:
        seed: determines the order, which differs between epochs.
    """

    def __init__(self, corpus: Corpus, length: int, seed: int) -> None:
        self.corpus = corpus
        self.length = length
        # Positions in the text, about one for each `length` tokens, in a random order.
        self._anchors = Anchors(corpus.num_tokens, length, seed)

    @property
    def rows_per_epoch(self) -> int:
        """The number of rows that together read the text about once."""
        return self._anchors.num_anchors

    def locate(self, first_row: int, num_rows: int) -> Segments:
        """Find the token spans of `num_rows` rows from `first_row` on, one span for each row."""
        anchors = self._anchors.positions(first_row, num_rows)
        return windows_around(self.corpus, anchors, self.length).segments()

    def read(self, first_row: int, num_rows: int) -> Iterator[TextWindow]:
        """Read the text of `num_rows` rows from `first_row` on."""
        spans = self.locate(first_row, num_rows)
        begins_document = self._are_document_borders(spans.starts)
        ends_document = self._are_document_borders(spans.ends)
        for start, end, is_start, is_end in zip(
            spans.starts.tolist(),
            spans.ends.tolist(),
            begins_document.tolist(),
            ends_document.tolist(),
            strict=True,
        ):
            ids = self.corpus.token_ids(start, end).astype(np.int64)
            yield TextWindow(ids, is_start, is_end)

    def _are_document_borders(self, positions: np.ndarray) -> np.ndarray:
        """Return for each position whether a document begins there, or the last one ends.

        Args:
            positions: indices of tokens in the split, int64 [positions].
        """
        # The first sentence, and then the first document, that begins at a position or after it.
        # The last entry of the starts is the end of the split, where nothing begins.
        sentences = np.searchsorted(self.corpus.sentence_starts, positions)
        documents = np.searchsorted(self.corpus.document_starts, sentences)
        begins_sentence = self.corpus.sentence_starts[sentences] == positions
        return begins_sentence & (self.corpus.document_starts[documents] == sentences)
