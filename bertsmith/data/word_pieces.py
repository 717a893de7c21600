"""Encoding of pre-split words, with the first token of each word.

Ids are those of transformers' `is_split_into_words=True`: each word is encoded by itself. A word of
which cleaning leaves nothing (zero-width or control characters) becomes [UNK], so that every word
has a first token, and with it a prediction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import IGNORE_INDEX, EncodedExamples
from bertsmith.data.windows import Window, Windowing, Windows, join_windows, make_windows
from bertsmith.tokenization.tokenizer import Tokenizer

Places = NDArray[np.int64]


@dataclass(frozen=True)
class WordPieces:
    """The tokens of a sentence's words.

    `ids` int32 `[tokens]`, and `first_pieces`, the index of each word's first token, int64
    `[words]`.
    """

    ids: NDArray[np.int32]
    first_pieces: Places


class RowWords(NamedTuple):
    """The words that a row predicts, and indices of their first tokens."""

    words: Places
    tokens: Places


def encode_words(
    tokenizer: Tokenizer,
    sentences: Iterable[Sequence[str]],
    max_length: int,
    windowing: Windowing,
) -> EncodedExamples:
    """Encode sentences to as many rows as they need.

    Rows have at most `max_length` tokens. `alignment` has a `RowWords` for each row; each word is
    in exactly one of them.
    """
    stride = windowing.overlap(max_length)
    made: list[Windows] = []
    alignment: list[RowWords] = []
    for pieces in cut_words(tokenizer, sentences):
        windows = make_windows(tokenizer, [pieces.ids.tolist()], max_length, stride)
        made.append(windows)
        alignment += divide_words(pieces.first_pieces, windows.rows)
    return join_windows(made, alignment)


def label_pieces(encoded: EncodedExamples, labels: Sequence[Places]) -> list[Places]:
    """Convert labels of words to labels of tokens.

    They are `[words]` per sentence and `[tokens]` per row. A word's label is at its first token, in
    the row that predicts it; all other tokens, and labels below 0, have `IGNORE_INDEX`.
    """
    targets = [np.full(length, IGNORE_INDEX, dtype=np.int64) for length in encoded.rows.lengths]
    for row, owner in enumerate(encoded.owners().tolist()):
        words, tokens = encoded.alignment[row]
        chosen = labels[owner][words]
        targets[row][tokens] = np.where(chosen < 0, IGNORE_INDEX, chosen)
    return targets


def cut_words(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]]) -> list[WordPieces]:
    """Encode the words of each sentence, without special tokens around them."""
    sentences = list(sentences)
    ids, counts = tokenizer.encode_word_ids(chain.from_iterable(sentences))
    if vanished := np.flatnonzero(counts == 0).tolist():
        ends = np.cumsum(counts)
        ids = np.insert(ids, ends[vanished], tokenizer.unk_id)
        counts[vanished] = 1
    first_pieces = np.cumsum(counts) - counts
    word_ends = np.cumsum([len(words) for words in sentences], dtype=np.int64).tolist()
    piece_starts = np.append(first_pieces, len(ids))
    result, start = [], 0
    for end in word_ends:
        first, last = piece_starts[start], piece_starts[end]
        result.append(WordPieces(ids[first:last], first_pieces[start:end] - first))
        start = end
    return result


def divide_words(first_pieces: Places, windows: Sequence[Window]) -> Iterator[RowWords]:
    """Yield the words that each window of a sentence predicts."""
    decides = deciding_windows(first_pieces, [(window.start, window.end) for window in windows])
    bounds = np.searchsorted(decides, np.arange(len(windows) + 1))
    for window, first, last in zip(windows, bounds, bounds[1:], strict=False):
        tokens = first_pieces[first:last] - window.start + window.first
        yield RowWords(np.arange(first, last, dtype=np.int64), tokens)


def deciding_windows(places: Places, windows: Sequence[tuple[int, int]]) -> Places:
    """Choose the window with most context around each of `places`.

    Context counts as in BERT's own code for SQuAD: the smaller of what is before and after the
    place in the window; on a tie the first window wins. Both `places` and `windows` must rise.
    Returns int64 of the shape of `places`, rising too.
    """
    best = np.full(len(places), -1, dtype=np.int64)
    decides = np.zeros(len(places), dtype=np.int64)
    for number, (start, end) in enumerate(windows):
        inside = slice(*np.searchsorted(places, [start, end]).tolist())
        context = np.minimum(places[inside] - start, end - 1 - places[inside])
        better = context > best[inside]
        best[inside][better] = context[better]
        decides[inside][better] = number
    return decides
