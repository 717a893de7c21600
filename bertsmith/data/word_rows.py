"""Encode sentences that are lists of words to rows of tokens, in which a tagger labels each word.

The words are encoded one by one, as transformers does with `is_split_into_words=True`. A word
without any token, such as one of zero-width characters, becomes [UNK], so that every word has a
first token, at which its label is predicted. A long sentence has several rows, which are
overlapping windows; one of them predicts the label of each word.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import IGNORE_INDEX, EncodedExamples
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import Window, Windows, join_windows, make_windows
from bertsmith.tokenization.tokenizer import Tokenizer

Indices = NDArray[np.int64]


class RowWords(NamedTuple):
    """The words whose labels are predicted in a row, both fields int64 `[words]`.

    `words` are the indices of the words in the sentence; `tokens` are the indices of their first
    tokens in the row.
    """

    words: Indices
    tokens: Indices


def encode_words(
    tokenizer: Tokenizer,
    sentences: Iterable[Sequence[str]],
    max_length: int,
    windowing: Windowing,
) -> EncodedExamples:
    """Encode each sentence to as many rows of at most `max_length` tokens as it needs.

    `alignment` of the result has a `RowWords` for each row; each word is in exactly one of them.

    Raises:
        ConfigError: windows would share more than half of a row.
    """
    stride = windowing.overlap(max_length)
    alignment: list[RowWords] = []

    def all_windows() -> Iterator[Windows]:
        for ids, first_tokens in cut_words(tokenizer, sentences):
            windows = make_windows(tokenizer, [ids.tolist()], max_length, stride)
            alignment.extend(_divide_words(first_tokens, windows.rows))
            yield windows

    return join_windows(all_windows(), alignment)


def label_pieces(encoded: EncodedExamples, labels: Sequence[Indices]) -> list[Indices]:
    """Convert labels of words, int64 `[words]` for each sentence, to labels of tokens.

    The result has an int64 array `[tokens]` for each row. The label of a word is at its first
    token, in the row that predicts the word. All other tokens have `IGNORE_INDEX`, as have words
    whose label is below 0.
    """
    targets = [np.full(length, IGNORE_INDEX, dtype=np.int64) for length in encoded.rows.lengths]
    for row, sentence in enumerate(encoded.example_of_row().tolist()):
        words, tokens = encoded.alignment[row]
        chosen = labels[sentence][words]
        targets[row][tokens] = np.where(chosen < 0, IGNORE_INDEX, chosen)
    return targets


def cut_words(
    tokenizer: Tokenizer, sentences: Iterable[Sequence[str]]
) -> Iterator[tuple[NDArray[np.int32], Indices]]:
    """Yield for each sentence its token ids and the indices of its words' first tokens.

    The ids, int32 `[tokens]`, hold no special tokens, and the indices are int64 `[words]`.
    """
    sentences = list(sentences)
    ids, counts = tokenizer.encode_word_ids(chain.from_iterable(sentences))
    if without_tokens := np.flatnonzero(counts == 0).tolist():
        ends = np.cumsum(counts)
        ids = np.insert(ids, ends[without_tokens], tokenizer.unk_id)
        counts[without_tokens] = 1
    # Indices in the tokens of all sentences, one after another, which are then divided by sentence.
    first_tokens = np.cumsum(counts) - counts
    word_ends = np.cumsum([len(words) for words in sentences], dtype=np.int64).tolist()
    token_starts = np.append(first_tokens, len(ids))
    for start, end in pairwise([0, *word_ends]):
        first, last = token_starts[start], token_starts[end]
        yield ids[first:last], first_tokens[start:end] - first


def _divide_words(first_tokens: Indices, windows: Sequence[Window]) -> Iterator[RowWords]:
    """Yield for each window of a sentence the words whose labels it predicts.

    `first_tokens` are the indices of the words' first tokens in the sentence, int64 `[words]`.
    """
    window_of_word = deciding_windows(first_tokens, [(row.start, row.end) for row in windows])
    # The windows ascend, so the words of window i are those from bounds[i] to bounds[i + 1].
    bounds = np.searchsorted(window_of_word, np.arange(len(windows) + 1))
    for window, (first, stop) in zip(windows, pairwise(bounds.tolist()), strict=True):
        tokens = first_tokens[first:stop] - window.start + window.first
        yield RowWords(np.arange(first, stop, dtype=np.int64), tokens)


def deciding_windows(positions: Indices, windows: Sequence[tuple[int, int]]) -> Indices:
    """Choose for each position the window in which it has the most context.

    As in BERT's own code for SQuAD, the context of a position is the number of tokens before it or
    after it in the window, whichever is smaller; of equal windows, the first counts. `positions`,
    int64 `[positions]`, and `windows` must be in ascending order.

    Returns:
        Indices of windows, int64 `[positions]`, which are in ascending order as well.
    """
    best = np.full(len(positions), -1, dtype=np.int64)  # the most context so far
    window_of_position = np.zeros(len(positions), dtype=np.int64)
    for index, (start, end) in enumerate(windows):
        first, stop = np.searchsorted(positions, [start, end]).tolist()
        inside = slice(first, stop)  # of a slice numpy gives a view, so assignments change `best`
        context = np.minimum(positions[inside] - start, end - 1 - positions[inside])
        is_better = context > best[inside]
        best[inside][is_better] = context[is_better]
        window_of_position[inside][is_better] = index
    return window_of_position
