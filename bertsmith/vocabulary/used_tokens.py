"""Token counts of texts, and the ids that a smaller vocabulary keeps."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from bertsmith.tokenization.grouping import group_by_size
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.trimming import single_characters, with_what_they_need
from bertsmith.tokenization.wordpiece import CONTINUING_PREFIX, WordPieceTokenizer

BATCH_CHARS = 1 << 20

Counts = NDArray[np.int64]


def count_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> Counts:
    """Count how often each token occurs in `texts`, int64 `[vocab_size]`.

    Memory holds one batch of texts. Of a word that WordPiece cannot cut, the tokens that were found
    before cutting failed count too: without them a smaller vocabulary might cut the word in another
    way, and succeed.
    """
    counts: Counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    pieces = {piece: id_ for id_, piece in enumerate(tokenizer.vocab[: tokenizer.num_pieces])}
    for batch in group_by_size(texts, BATCH_CHARS):
        ids, lengths = tokenizer.encode_batch_ids(batch)
        counts += np.bincount(ids, minlength=len(counts))
        if not isinstance(tokenizer, WordPieceTokenizer):
            continue
        ends = np.cumsum(lengths)
        with_unknown = set(np.searchsorted(ends, np.flatnonzero(ids == tokenizer.unk_id), "right"))
        for place in with_unknown:
            np.add.at(counts, list(_cut_in_vain(tokenizer, pieces, batch[place])), 1)
    return counts


def kept_tokens(
    tokenizer: Tokenizer,
    counts: Counts,
    *,
    min_count: int = 1,
    keep_characters: bool = True,
) -> list[int]:
    """Select the ids, rising, that a vocabulary for these counts keeps.

    Special and added tokens always stay, and so do tokens that kept ones are made of; with
    `keep_characters` every single character too, so that a word of known characters can always be
    cut.
    """
    kept = counts >= min_count
    if keep_characters:
        kept |= single_characters(tokenizer)
    ids: list[int] = np.flatnonzero(with_what_they_need(tokenizer, kept)).tolist()
    return ids


def _cut_in_vain(tokenizer: WordPieceTokenizer, ids: Mapping[str, int], text: str) -> Iterator[int]:
    """Yield the ids of each unknown word's tokens before cutting failed."""
    for word in tokenizer.words(text):
        found: list[int] = []
        start = 0
        while start < len(word) <= tokenizer.max_input_chars_per_word:
            prefix = CONTINUING_PREFIX if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in ids), None)
            if end is None:
                yield from found
                break
            found.append(ids[prefix + word[start:end]])
            start = end
