"""TF-IDF over tokens and pairs of neighbouring tokens.

A linear head reads these numbers beside the encoder's vector of a text. Tokens of the model's
vocabulary are counted instead of words. So all languages are treated alike, and a prediction needs
no further vocabulary.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples

Keys = NDArray[np.int64]
"""Numbers that stand for n-grams; see `TokenNgrams`."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix `[rows, columns]`, stored row by row as in the CSR format.

    Row `i` has the entries from `starts[i]` up to before `starts[i + 1]`, each with its column,
    int64 and ascending in a row, and its value, fp32.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    num_columns: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def multiply(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """Multiply by a dense matrix `[columns, outputs]`: fp32 `[rows, outputs]`."""
        products = self.values[:, None] * matrix[self.columns]
        sums = np.zeros((len(self), matrix.shape[1]), dtype=np.float32)
        is_filled = np.diff(self.starts) > 0
        if is_filled.any():  # reduceat gives an empty row the first entry of the next one
            sums[is_filled] = np.add.reduceat(products, self.starts[:-1][is_filled], axis=0)
        return sums


@dataclass(frozen=True)
class TokenNgrams:
    """The n-grams of the training texts, and the inverse document frequency of each.

    An n-gram is a token or two neighbouring tokens. Its key is the id of the token, or for two
    `(first + 1) * vocab_size + second`, which is above all ids. `keys` are ascending, int64
    `[ngrams]`. `idf`, fp32 `[ngrams]`, is ln((1 + texts) / (1 + texts with the n-gram)) + 1, as in
    scikit-learn.
    """

    keys: Keys
    idf: NDArray[np.float32]
    vocab_size: int
    special_ids: frozenset[int]

    @classmethod
    def fit(
        cls,
        texts: EncodedExamples,
        vocab_size: int,
        special_ids: Collection[int],
        max_ngrams: int,
    ) -> Self:
        """Collect the `max_ngrams` n-grams that occur in the most texts, and their idf."""
        text_of_ngram, keys = _find_ngrams(texts, vocab_size, special_ids)
        # An n-gram counts once in each text, however often it occurs there.
        keys_and_texts = np.unique(np.stack([keys, text_of_ngram]), axis=1)
        distinct, num_texts = np.unique(keys_and_texts[0], return_counts=True)
        if len(distinct) > max_ngrams:
            # Of n-grams in equally many texts, a stable sort keeps those with smaller keys.
            common = np.sort(np.argsort(-num_texts, kind="stable")[:max_ngrams])
            distinct, num_texts = distinct[common], num_texts[common]
        idf = np.log((1 + len(texts)) / (1 + num_texts)) + 1
        return cls(distinct, idf.astype(np.float32), vocab_size, frozenset(special_ids))

    def __len__(self) -> int:
        return len(self.keys)

    def transform(self, texts: EncodedExamples) -> SparseRows:
        """Compute TF-IDF of texts: (1 + ln count) * idf, each row scaled to length 1."""
        text_of_ngram, keys = _find_ngrams(texts, self.vocab_size, self.special_ids)
        # The index that each key has in `self.keys`, if it is there, which `is_known` says.
        columns = np.searchsorted(self.keys, keys)
        is_known = np.zeros(len(keys), dtype=bool)
        if len(self.keys):
            is_known = self.keys[np.minimum(columns, len(self.keys) - 1)] == keys
        width = max(len(self.keys), 1)  # no division by 0 without n-grams
        # The entry of an n-gram in a text has the flat index text * width + column.
        flat_indices = text_of_ngram[is_known] * width + columns[is_known]
        entries, counts = np.unique(flat_indices, return_counts=True)
        rows, columns = np.divmod(entries, width)
        values = (1 + np.log(counts)) * self.idf[columns]
        squares = np.bincount(rows, values**2, minlength=len(texts))
        values /= np.sqrt(squares)[rows]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(texts)))])
        return SparseRows(starts, columns, values.astype(np.float32), len(self.keys))


def _find_ngrams(
    texts: EncodedExamples, vocab_size: int, special_ids: Collection[int]
) -> tuple[NDArray[np.int64], Keys]:
    """Find each occurrence of an n-gram; return the indices of the texts, and the keys.

    Both results are int64 `[occurrences]`. Special tokens are left out, and so are pairs with them.
    """
    ids = texts.rows.ids.flat.astype(np.int64)
    lengths = np.array(texts.rows.lengths, dtype=np.int64)
    text_of_token = np.repeat(texts.example_of_row(), lengths)
    row_of_token = np.repeat(np.arange(len(lengths)), lengths)
    is_ordinary = ~np.isin(ids, list(special_ids))
    # For each token but the last: whether it forms a pair with the next one.
    is_pair = is_ordinary[:-1] & is_ordinary[1:] & (row_of_token[:-1] == row_of_token[1:])
    pair_keys = (ids[:-1] + 1) * vocab_size + ids[1:]
    return (
        np.concatenate([text_of_token[is_ordinary], text_of_token[:-1][is_pair]]),
        np.concatenate([ids[is_ordinary], pair_keys[is_pair]]),
    )
