"""Compute initial word embeddings and the decoder's bias from counts of the corpus.

A BERT first learns the frequencies of tokens, and which tokens stand near each other. Both can be
counted. The decoder's bias becomes the logarithm of each token's frequency. The word embeddings
become a factorization of positive pointwise mutual information (Levy and Goldberg 2014): tokens
with similar neighbours get similar vectors. Above `MAX_DENSE` tokens the matrix is sparse, so that
memory grows with the text, not with the square of the vocabulary.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.pretraining.token_counts import IdArray, count_sampled_tokens, counted_documents
from bertsmith.system.memory import available_bytes
from bertsmith.system.progress import progress_bar

WINDOW = 8
"""Largest distance in tokens at which two tokens are neighbours."""
SMOOTHING = 0.75
"""Exponent of the context counts: it lowers the PMI of rare contexts (Levy et al. 2015, section
3.2)."""
MAX_DENSE = 2**14
"""Largest vocabulary with a dense matrix, which then takes 1 GiB. At 8,000 tokens products with a
dense matrix take a third of the time that they take with a sparse one."""
MAX_COUNTED_PAIRS = 2**24
"""Largest number of different pairs; if there are more, the rarest are left out once all are
counted. With a vocabulary of 250,000 tokens and 9.3 million pairs, a process took up to 2.3 GB
(benchmarks/results/quality-screening.md)."""
BYTES_PER_PAIR = 110
"""Largest memory per pair: ids of both tokens, a count and a sorting order, and sorted copies."""
KEYS_AT_ONCE = 2**23
"""Number of pairs that are sorted at once, 64 MiB of keys."""
ITERATIONS = 4
"""Power iterations of the randomized SVD (Halko et al. 2011, algorithm 4.4)."""
OVERSAMPLING = 16
"""Dimensions that the randomized SVD computes besides those that are kept, for precision."""


class PairCounts(NamedTuple):
    """Pairs of neighbouring tokens, sorted by `keys`, and their occurrences; int64 `[pairs]`.

    The key of a pair is the smaller token id times the size of the vocabulary plus the larger one.
    """

    keys: IdArray
    counts: IdArray


class PmiMatrix(NamedTuple):
    """A matrix, `rows`, and its transpose, `columns`, fp32 `[vocabulary, vocabulary]`.

    PMI is pointwise mutual information. Both matrices are sparse above `MAX_DENSE` tokens.
    """

    rows: Tensor
    columns: Tensor


@torch.no_grad()
def initialize_counted(model: BertModel, corpus: Corpus) -> None:
    """Initialize word embeddings and the masked-LM bias from the counts of a corpus.

    The embeddings factorize positive pointwise mutual information (Levy and Goldberg 2014, section
    5; smoothed contexts: Levy et al. 2015, section 3.2). Over the counted tokens each dimension has
    mean 0; together they have the standard deviation `initializer_range`. Tokens that do not occur,
    special ones among them, keep their random vectors.

    Raises:
        ConfigError: the vocabulary is large, and its pairs may need more memory than is free.
    """
    purpose = option("word_initializer", "counted")
    check_memory(corpus, purpose, alternative="normal, or ")
    embeddings = model.embeddings.word.weight
    vectors, counts = count_vectors(corpus, embeddings.shape[1])
    occurs = torch.from_numpy(counts > 0)
    deviation = vectors[occurs].std()
    if deviation > 0:  # zero for a text in which all tokens have the same neighbours
        embeddings[occurs] = vectors[occurs] * (model.config.initializer_range / deviation)
    smoothed_counts = torch.from_numpy(counts + 1.0)
    bias = cast(MaskedLMHead, model.heads["masked_lm"]).bias
    bias.copy_((smoothed_counts / smoothed_counts.sum()).log())


def count_vectors(corpus: Corpus, size: int) -> tuple[Tensor, IdArray]:
    """Compute vectors of tokens, fp32 `[vocabulary, size]`, and their counts, int64 `[vocabulary]`.

    The vectors factorize positive pointwise mutual information. Over the counted tokens each
    dimension has mean 0. Tokens that do not occur, special ones among them, have the vector 0.
    """
    counts = count_sampled_tokens(corpus)
    occurs = torch.from_numpy(counts > 0)
    vectors = factorize(positive_pmi(count_neighbours(corpus), len(counts)), size)
    vectors -= vectors[occurs].mean(0)
    vectors[~occurs] = 0
    return vectors, counts


def check_memory(corpus: Corpus, purpose: str, alternative: str) -> None:
    """Check that the pairs of a large vocabulary fit into memory.

    Args:
        purpose: the beginning of the message, such as "vectors": it names what needs the memory.
        alternative: another choice, which the message names before "a vocabulary of at most …".

    Raises:
        ConfigError: the pairs may not fit.
    """
    needed = BYTES_PER_PAIR * min(MAX_COUNTED_PAIRS, WINDOW * corpus.num_tokens)
    free = available_bytes()
    if corpus.vocab_size > MAX_DENSE and free is not None and free < needed:
        raise ConfigError(
            f"{purpose}: for {corpus.vocab_size:,} tokens it may need {needed / 2**30:.1f} GiB of "
            f"memory; {free / 2**30:.1f} GiB are free. Choose {alternative}a vocabulary of at most "
            f"{MAX_DENSE:,} tokens."
        )


def count_neighbours(corpus: Corpus) -> PairCounts:
    """Count pairs of tokens that are at most `WINDOW` tokens apart in one document.

    In a large corpus evenly spread documents are counted. If there are more than
    `MAX_COUNTED_PAIRS` different pairs, the most frequent ones are returned.
    """
    pairs = PairCounts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for keys in neighbour_keys(corpus):
        pairs = add_counts(pairs, PairCounts(*np.unique(keys, return_counts=True)))
    if len(pairs.keys) > MAX_COUNTED_PAIRS:
        # The smallest count that may still fit: pairs with it are left out, as not all may fit.
        smallest = np.partition(pairs.counts, -MAX_COUNTED_PAIRS)[-MAX_COUNTED_PAIRS]
        is_kept = pairs.counts > smallest
        pairs = PairCounts(pairs.keys[is_kept], pairs.counts[is_kept])
    return pairs


def neighbour_keys(corpus: Corpus) -> Iterator[IdArray]:
    """Yield the keys of all pairs of neighbours, about `KEYS_AT_ONCE` in an array."""
    arrays: list[IdArray] = []
    for documents in counted_documents(corpus, "counting neighbours"):
        ids = with_gaps(documents)
        for distance in range(1, WINDOW + 1):
            one, other = ids[:-distance], ids[distance:]
            smaller, larger = np.minimum(one, other), np.maximum(one, other)
            # In a pair with a gap, the smaller id is the gap's -1.
            arrays.append((smaller * corpus.vocab_size + larger)[smaller >= 0])
            if sum(map(len, arrays)) >= KEYS_AT_ONCE:
                yield np.concatenate(arrays)
                arrays = []
    if arrays:
        yield np.concatenate(arrays)


def with_gaps(documents: Sequence[NDArray[Any]]) -> IdArray:
    """Join documents, int64 `[tokens]`, with -1 after each for `WINDOW` tokens.

    So no tokens of two documents are neighbours.
    """
    gap = np.full(WINDOW, -1)
    parts: list[IdArray] = []
    for ids in documents:
        parts += [ids.astype(np.int64), gap]
    return np.concatenate(parts)


def add_counts(one: PairCounts, other: PairCounts) -> PairCounts:
    """Add the occurrences of pairs; each pair is returned once."""
    keys = np.concatenate((one.keys, other.keys))
    order = np.argsort(keys, kind="stable")  # finds the two sorted runs, and merges them
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.concatenate((one.counts, other.counts))[order]
    return PairCounts(keys[starts], np.add.reduceat(counts, starts))


def positive_pmi(pairs: PairCounts, size: int) -> PmiMatrix:
    """Compute positive pointwise mutual information `[size, size]` of tokens and contexts.

    A context is a token, too, seen as a neighbour. The value is log(p(token, context) / (p(token) ·
    p(context))), the logarithm of how much more often than by chance two tokens are neighbours. It
    is 0 where the logarithm is negative. `size` is the size of the vocabulary.
    """
    smaller, larger = pairs.keys // size, pairs.keys % size
    are_different = smaller != larger
    # The matrix has each pair of different tokens twice, at (larger, smaller) and (smaller,
    # larger). A pair of two equal tokens is in it once, with twice the count, as each of the two is
    # a neighbour of the other. Columns left of the diagonal come first here, in rising order like
    # those right of it: so a stable sort by row also sorts the columns of each row.
    rows = np.concatenate((larger[are_different], smaller))
    columns = np.concatenate((smaller[are_different], larger))
    counts = np.concatenate(
        (pairs.counts[are_different], pairs.counts * np.where(are_different, 1.0, 2.0))
    )
    order = np.argsort(rows, kind="stable")
    rows, columns, counts = rows[order], columns[order], counts[order]
    token_totals = np.maximum(np.bincount(rows, counts, size), 1)
    context_totals = token_totals**SMOOTHING
    # p(token, context) / (p(token) · p(context)) is
    # counts · sum(context_totals) / (token_totals · context_totals)
    counts *= context_totals.sum()
    values = np.log(counts / (token_totals[rows] * context_totals[columns])).clip(0)
    if size <= MAX_DENSE:
        dense = torch.zeros(size, size)
        dense.view(-1)[torch.from_numpy(rows * size + columns)] = torch.from_numpy(values).float()
        return PmiMatrix(dense, dense.T)
    # Pairs have both orders, so the transpose has its values at the same indices.
    transposed = np.log(counts / (token_totals[columns] * context_totals[rows])).clip(0)
    is_kept = np.maximum(values, transposed) > 0
    row_starts = np.bincount(rows[is_kept] + 1, minlength=size + 1).cumsum()
    indices = torch.from_numpy(row_starts), torch.from_numpy(columns[is_kept])
    return PmiMatrix(
        _sparse(*indices, values[is_kept], size), _sparse(*indices, transposed[is_kept], size)
    )


def _sparse(row_starts: Tensor, columns: Tensor, values: NDArray[Any], size: int) -> Tensor:
    """Build a sparse matrix `[size, size]` (CSR), fp32."""
    numbers = torch.from_numpy(values).float()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            row_starts, columns, numbers, (size, size), check_invariants=False
        )


def factorize(matrix: PmiMatrix, rank: int) -> Tensor:
    """Compute vectors `[rows, rank]` whose products with vectors of the columns are the matrix.

    The vectors are the left singular vectors times the roots of the singular values, by a
    randomized SVD (Halko et al. 2011, algorithms 4.4 and 5.1). If the matrix has fewer than `rank`
    rows, the other numbers are 0.
    """
    num_kept = min(rank, *matrix.rows.shape)
    size = min(num_kept + OVERSAMPLING, *matrix.rows.shape)
    # torch.svd_lowrank computes the same, but for a large matrix it takes minutes, and shows no
    # progress.
    with progress_bar("computing word vectors from counts", 2 * ITERATIONS + 2) as advance:
        basis = _orthonormal(matrix.rows @ torch.randn(matrix.rows.shape[1], size))
        advance()
        for _ in range(ITERATIONS):
            basis = _orthonormal(matrix.columns @ basis)
            advance()
            basis = _orthonormal(matrix.rows @ basis)
            advance()
        left, values, _ = torch.linalg.svd((matrix.columns @ basis).T, full_matrices=False)
    vectors = basis @ left[:, :num_kept] * values[:num_kept].sqrt()
    return torch.nn.functional.pad(vectors, (0, rank - num_kept))


def _orthonormal(columns: Tensor) -> Tensor:
    return torch.linalg.qr(columns).Q
