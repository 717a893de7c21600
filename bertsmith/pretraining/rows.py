"""Layout of pre-training rows: token ids, segment ids and word numbers.

The text is read segment by segment, and then all rows of a step are laid out at once. A row of one
or two segments equals that of `Tokenizer.build_row`. Documents that share a row have one separator
between them.
"""

from dataclasses import dataclass, replace

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.pretraining.segments import Segments
from bertsmith.pretraining.word_bounds import WordBounds
from bertsmith.tokenization.tokenizer import Tokenizer

CONTEXT = 16
"""Tokens read on either side of a segment, to see whether its ends cut a word. One token would be
enough to see `##`, but a segmenter finds the words at an end better with more context."""


@dataclass(frozen=True)
class TextRows:
    """Rows one after another: `ids` and `type_ids` int64 `[tokens]`, `lengths` int64 `[rows]`.

    `words`, int64 `[tokens]`, numbers the words for `choose_words`: -1 at special tokens and at
    words that are cut by an end of their segment. It is None if words are not requested.
    """

    ids: np.ndarray
    type_ids: np.ndarray
    lengths: np.ndarray
    words: np.ndarray | None = None


class RowReader:
    """Reader of the rows of a split.

    Args:
        is_special: mask of special tokens by id, bool `[vocabulary]`; they belong to no word.
        bounds: finds the beginnings of words; None if the words need no numbers.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        is_special: np.ndarray,
        bounds: WordBounds | None = None,
    ) -> None:
        self._corpus = corpus
        self._tokenizer = tokenizer
        self._is_special = is_special
        self._bounds = bounds

    def read(self, segments: Segments) -> TextRows:
        """Read the tokens of the segments, and lay them out with special tokens between."""
        if self._bounds is None:
            return self._lay_out(self._text(segments.starts, segments.ends), segments)
        return self._lay_out_words(segments, self._bounds)

    def _text(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        read = self._corpus.token_ids
        ranges = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.concatenate([read(start, end) for start, end in ranges])

    def _lay_out(self, text: np.ndarray, segments: Segments) -> TextRows:
        """Add special tokens to the segments' concatenated text."""
        first = segments.is_first
        framed = self._framed_lengths(segments)
        begin = np.cumsum(framed) - framed
        ids = np.full(framed.sum(), self._tokenizer.sep_id, dtype=np.int64)
        ids[begin[first]] = self._tokenizer.cls_id
        ids[_token_indices(begin + first, segments.lengths)] = text
        is_second = segments.are_pairs & ~first
        type_ids = np.repeat(is_second * self._tokenizer.pair_type_id, framed)
        row_lengths = np.bincount(segments.rows, framed).astype(np.int64)
        return TextRows(ids, type_ids, row_lengths)

    def _framed_lengths(self, segments: Segments) -> np.ndarray:
        """Compute the lengths of segments with separators and, for a row's first, [CLS]."""
        is_last = np.append(segments.is_first[1:], True)
        between = self._tokenizer.num_separators if segments.are_pairs else 1
        return segments.is_first + segments.lengths + np.where(is_last, 1, between)

    def _lay_out_words(self, segments: Segments, bounds: WordBounds) -> TextRows:
        """Lay out rows with word numbers.

        The beginnings of words are found in a text that extends beyond the segments' ends.
        """
        wide_starts, wide_ends = self._widen(segments)
        wide_lengths = wide_ends - wide_starts
        text = self._text(wide_starts, wide_ends)
        corpus_indices = _token_indices(wide_starts, wide_lengths)
        begins = bounds.begins(text, self._begin_sentence(corpus_indices))
        # A segment cuts a word if the token after it continues one.
        after = np.cumsum(wide_lengths) - wide_lengths + segments.ends - wide_starts
        is_cut = (wide_ends > segments.ends) & ~np.append(begins, True)[after]
        is_inside = (corpus_indices >= np.repeat(segments.starts, wide_lengths)) & (
            corpus_indices < np.repeat(segments.ends, wide_lengths)
        )
        rows = self._lay_out(text[is_inside], segments)
        words = self._number(rows.ids, segments, begins[is_inside], is_cut)
        return replace(rows, words=words)

    def _widen(self, segments: Segments) -> tuple[np.ndarray, np.ndarray]:
        """Extend segments by up to `CONTEXT` tokens within their sentences."""
        sentences = self._corpus.sentence_starts
        first = np.searchsorted(sentences, segments.starts, side="right") - 1
        after = np.searchsorted(sentences, segments.ends, side="left")
        return (
            np.maximum(sentences[first], segments.starts - CONTEXT),
            np.minimum(sentences[after], segments.ends + CONTEXT),
        )

    def _begin_sentence(self, corpus_indices: np.ndarray) -> np.ndarray:
        """Mark the corpus positions that begin a sentence, or follow a gap."""
        sentences = self._corpus.sentence_starts
        begins: np.ndarray = sentences[np.searchsorted(sentences, corpus_indices)] == corpus_indices
        begins[0] = True
        begins[1:] |= corpus_indices[1:] != corpus_indices[:-1] + 1
        return begins

    def _number(
        self, ids: np.ndarray, segments: Segments, begins: np.ndarray, is_cut: np.ndarray
    ) -> np.ndarray:
        """Number each token's word; -1 for special tokens and cut words."""
        framed = self._framed_lengths(segments)
        text_starts = np.cumsum(framed) - framed + segments.is_first
        is_special = self._is_special[ids]
        begins_word = is_special.copy()
        begins_word[_token_indices(text_starts, segments.lengths)] |= begins
        number = np.cumsum(begins_word) - 1
        # A word that begins before its segment has the number of the special token before it.
        is_left_out = is_special[begins_word]
        is_left_out[number[(text_starts + segments.lengths - 1)[is_cut]]] = True
        return np.where(is_left_out[number], -1, number)


def _token_indices(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List all positions of ranges, one range after another."""
    skipped = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - skipped, lengths)
