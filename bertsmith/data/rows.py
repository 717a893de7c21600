"""Rows as a model reads them: where their text lies goes in, framed token ids come out.

All rows are laid out at once, one after another, with segment ids and, for masking by words, the
words that their tokens belong to. Only reading the text goes segment by segment. A row is put
together as `Tokenizer.build_row` does it for one text or two; documents that share a row have one
separator between them.
"""

from dataclasses import dataclass

import numpy as np

from bertsmith.data.pairs import Segments
from bertsmith.data.shards import Corpus
from bertsmith.data.word_bounds import WordBounds
from bertsmith.text.tokenizer import Tokenizer

CONTEXT = 16
"""Tokens read on either side of a segment to see whether its ends cut a word: one would do
to see `##`, and a segmenter finds the words at the edge the better the more it sees."""


@dataclass(frozen=True)
class TextRows:
    """Rows one after another: `ids` and `type_ids` int64 `[tokens]`, `lengths` int64 `[rows]`.

    `words` int64 `[tokens]` numbers the words as `choose_words` reads them: -1 at special tokens
    and at words that an end of their segment cut. None where words are not asked for.
    """

    ids: np.ndarray
    type_ids: np.ndarray
    lengths: np.ndarray
    words: np.ndarray | None


class RowReader:
    """Reads and lays out rows of a split.

    Args:
        corpus: the split.
        tokenizer: says how a row is put together.
        is_special: by id, bool `[vocabulary]`; such tokens belong to no word.
        bounds: where words begin; None leaves words out.
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
        """The rows that the segments make."""
        if self._bounds is None:
            return self._lay_out(self._text(segments.starts, segments.ends), segments)
        return self._lay_out_words(segments, self._bounds)

    def _text(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        read = self._corpus.token_ids
        ranges = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.concatenate([read(start, end) for start, end in ranges])

    def _lay_out(self, text: np.ndarray, segments: Segments) -> TextRows:
        """Special tokens around the text, which has the segments' tokens one after another."""
        first, framed = segments.is_first, self._framed_lengths(segments)
        begin = np.cumsum(framed) - framed
        ids = np.full(framed.sum(), self._tokenizer.sep_id, dtype=np.int64)
        ids[begin[first]] = self._tokenizer.cls_id
        ids[_places(begin + first, segments.lengths)] = text
        is_second = segments.are_pairs & ~first
        type_ids = np.repeat(is_second * self._tokenizer.pair_type_id, framed)
        row_lengths = np.bincount(segments.rows, framed).astype(np.int64)
        return TextRows(ids, type_ids, row_lengths, words=None)

    def _framed_lengths(self, segments: Segments) -> np.ndarray:
        """Tokens of each segment with [CLS] before the first, and the separators after each."""
        is_last = np.append(segments.is_first[1:], True)
        between = self._tokenizer.num_separators if segments.are_pairs else 1
        framed: np.ndarray = segments.is_first + segments.lengths + np.where(is_last, 1, between)
        return framed

    def _lay_out_words(self, segments: Segments, bounds: WordBounds) -> TextRows:
        """The same with words, which are found in the text with its surroundings."""
        wide_starts, wide_ends = self._widen(segments)
        wide_lengths = wide_ends - wide_starts
        text = self._text(wide_starts, wide_ends)
        places = _places(wide_starts, wide_lengths)
        begins = bounds.begins(text, self._begin_sentence(places))
        # A segment cuts a word if the token after it goes on with one.
        after = np.cumsum(wide_lengths) - wide_lengths + segments.ends - wide_starts
        is_cut = (wide_ends > segments.ends) & ~np.append(begins, True)[after]
        is_inside = (places >= np.repeat(segments.starts, wide_lengths)) & (
            places < np.repeat(segments.ends, wide_lengths)
        )
        rows = self._lay_out(text[is_inside], segments)
        words = self._number(rows.ids, segments, begins[is_inside], is_cut)
        return TextRows(rows.ids, rows.type_ids, rows.lengths, words)

    def _widen(self, segments: Segments) -> tuple[np.ndarray, np.ndarray]:
        """The segments with up to `CONTEXT` tokens more on either side, of the same sentence."""
        sentences = self._corpus.sentence_starts
        first = np.searchsorted(sentences, segments.starts, side="right") - 1
        after = np.searchsorted(sentences, segments.ends, side="left")
        return (
            np.maximum(sentences[first], segments.starts - CONTEXT),
            np.minimum(sentences[after], segments.ends + CONTEXT),
        )

    def _begin_sentence(self, places: np.ndarray) -> np.ndarray:
        """Whether each place of the corpus begins a sentence, or stands after a gap."""
        sentences = self._corpus.sentence_starts
        begins: np.ndarray = sentences[np.searchsorted(sentences, places)] == places
        begins[0] = True
        begins[1:] |= places[1:] != places[:-1] + 1
        return begins

    def _number(
        self, ids: np.ndarray, segments: Segments, begins: np.ndarray, is_cut: np.ndarray
    ) -> np.ndarray:
        """The word of each token: -1 for what begins with a special token, or is cut."""
        framed = self._framed_lengths(segments)
        text_starts = np.cumsum(framed) - framed + segments.is_first
        is_special = self._is_special[ids]
        begins_word = is_special.copy()
        begins_word[_places(text_starts, segments.lengths)] |= begins
        number = np.cumsum(begins_word) - 1
        # What goes on with a word that is not in the row has a special token's number.
        is_lost = is_special[begins_word]
        is_lost[number[(text_starts + segments.lengths - 1)[is_cut]]] = True
        words: np.ndarray = np.where(is_lost[number], -1, number)
        return words


def _places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """All places of ranges, one range after another."""
    skipped = np.cumsum(lengths) - lengths
    places: np.ndarray = np.arange(lengths.sum()) + np.repeat(starts - skipped, lengths)
    return places
