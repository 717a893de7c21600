"""Lay out the rows of pre-training: token ids, segment ids and word numbers.

A row is one training sequence, such as [CLS] A [SEP] B [SEP]. The text is read segment by segment,
and then a group of rows is laid out at once. A row of one or two segments equals that of
`Tokenizer.build_row`. If parts of several documents share a row, one separator is between two of
them. A *framed* segment is a segment with the separators after it and, if it is the first of its
row, the [CLS] before it. Tokens are given by their offsets in the text of the corpus, whose
`sentence_starts` are the offsets at which sentences begin, and one more for the end of the text.
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
    """Reader of the rows of a corpus split.

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
        """Read the tokens of some ranges, one after another, integers `[tokens of text]`."""
        read = self._corpus.token_ids
        ranges = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.concatenate([read(start, end) for start, end in ranges])

    def _lay_out(self, text: np.ndarray, segments: Segments) -> TextRows:
        """Add special tokens to the segments' concatenated text, integers `[tokens of text]`."""
        is_first = segments.is_first
        framed_lengths = self._framed_lengths(segments)
        framed_starts = np.cumsum(framed_lengths) - framed_lengths
        # Filled with [SEP] at first; [CLS] and the text then leave it at the ends of segments.
        ids = np.full(framed_lengths.sum(), self._tokenizer.sep_id, dtype=np.int64)
        ids[framed_starts[is_first]] = self._tokenizer.cls_id
        ids[_token_indices(framed_starts + is_first, segments.lengths)] = text
        is_second = segments.are_pairs & ~is_first
        type_ids = np.repeat(is_second * self._tokenizer.pair_type_id, framed_lengths)
        row_lengths = np.bincount(segments.rows, framed_lengths).astype(np.int64)
        return TextRows(ids, type_ids, row_lengths)

    def _framed_lengths(self, segments: Segments) -> np.ndarray:
        """Compute the number of tokens of each framed segment, int64 `[segments]`."""
        is_last = np.append(segments.is_first[1:], True)
        num_between = self._tokenizer.num_separators if segments.are_pairs else 1
        num_separators = np.where(is_last, 1, num_between)
        return segments.is_first + segments.lengths + num_separators

    def _lay_out_words(self, segments: Segments, bounds: WordBounds) -> TextRows:
        """Lay out rows with word numbers.

        The beginnings of words are found in text that extends beyond both ends of each segment.
        """
        wide_starts, wide_ends = self._widen(segments)
        wide_lengths = wide_ends - wide_starts
        text = self._text(wide_starts, wide_ends)
        corpus_indices = _token_indices(wide_starts, wide_lengths)
        begins = bounds.begins(text, self._is_after_gap(corpus_indices))
        # A segment cuts a word at its end if the token after the segment does not begin a word. Of
        # the last segment, the index of this token may be one beyond the text.
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

    def _is_after_gap(self, corpus_indices: np.ndarray) -> np.ndarray:
        """Mark the corpus positions that begin a sentence, or do not follow the one before them."""
        starts = self._corpus.sentence_starts
        is_after: np.ndarray = starts[np.searchsorted(starts, corpus_indices)] == corpus_indices
        is_after[0] = True
        is_after[1:] |= corpus_indices[1:] != corpus_indices[:-1] + 1
        return is_after

    def _number(
        self, ids: np.ndarray, segments: Segments, begins: np.ndarray, is_cut: np.ndarray
    ) -> np.ndarray:
        """Number each token's word, int64 `[tokens]`; -1 for special tokens and cut words.

        Args:
            ids: the rows with special tokens, `[tokens]`.
            begins: whether each token of the text begins a word, bool `[tokens of text]`.
            is_cut: whether each segment's last word goes on after it, bool `[segments]`.
        """
        framed_lengths = self._framed_lengths(segments)
        text_starts = np.cumsum(framed_lengths) - framed_lengths + segments.is_first
        is_special = self._is_special[ids]
        begins_word = is_special.copy()  # at first a special token counts as a word
        begins_word[_token_indices(text_starts, segments.lengths)] |= begins
        numbers = np.cumsum(begins_word) - 1
        # Special tokens are left out. A word that begins before its segment has no beginning here,
        # so its tokens have the number of the special token before them, and are left out with it.
        is_left_out = is_special[begins_word]
        last_tokens = text_starts + segments.lengths - 1
        is_left_out[numbers[last_tokens[is_cut]]] = True
        return np.where(is_left_out[numbers], -1, numbers)


def _token_indices(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List all positions of ranges, one range after another, int64 `[sum of lengths]`.

    Starts 5 and 20 with lengths 2 and 3 give 5, 6, 20, 21, 22.
    """
    positions_before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - positions_before, lengths)
