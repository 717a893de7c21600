"""A start in closed form: word embeddings and the decoder's bias, counted in the corpus.

The first thing that a BERT learns is how frequent tokens are and which of them stand near each
other. Both can be counted. The decoder's bias becomes the logarithm of each token's frequency, the
word embeddings a factorization of positive pointwise mutual information (Levy and Goldberg 2014,
"Neural word embedding as implicit matrix factorization").
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.heads import MaskedLMHead
from bertsmith.pretraining.token_counts import counted_documents, token_counts

WINDOW = 8
"""Largest distance in tokens at which two tokens are neighbours."""
SMOOTHING = 0.75
"""Exponent of the context counts: it lowers the PMI of rare contexts (Levy et al. 2015, section
3.2)."""
MAX_COUNTS = 2**28
"""Largest number of counts, 1 GiB in fp32. Of a larger vocabulary the most frequent tokens alone
are contexts."""
MIN_CONTEXTS = 512
ITERATIONS = 4
"""Power iterations of the randomized SVD (Halko et al. 2011, algorithm 4.4)."""
OVERSAMPLING = 16


@torch.no_grad()
def initialize_counted(model: BertModel, corpus: Corpus) -> None:
    """Initialize word embeddings and the masked-LM bias from the counts of a corpus.

    Over the counted tokens each dimension has the mean 0, and all together have the standard
    deviation `initializer_range`. Tokens that do not occur, special ones among them, keep their
    random vectors.

    Raises:
        ConfigError: the vocabulary is too large to count neighbours.
    """
    words = model.embeddings.word.weight
    counts = token_counts(corpus)
    seen = torch.from_numpy(counts > 0)
    vectors = factorize(positive_pmi(count_neighbours(corpus, counts))[seen], words.shape[1])
    vectors -= vectors.mean(0)
    spread = vectors.std()
    if spread > 0:  # not in a text in which all words are used alike
        words[seen] = vectors * (model.config.initializer_range / spread)
    frequencies = torch.from_numpy(counts + 1.0)
    bias = cast(MaskedLMHead, model.heads["masked_lm"]).bias
    bias.copy_((frequencies / frequencies.sum()).log())


def count_neighbours(corpus: Corpus, counts: NDArray[np.int64]) -> Tensor:
    """Count how often tokens stand near contexts, fp32 `[vocabulary, contexts]`.

    Neighbours are at most `WINDOW` tokens apart in one document. Contexts are the most frequent
    tokens, as many as memory allows. Of large corpora evenly spread documents are counted.

    Args:
        counts: occurrences of each token, `[vocabulary]`.

    Raises:
        ConfigError: the vocabulary is too large.
    """
    size = len(counts)
    num_contexts = min(size, MAX_COUNTS // size)
    if num_contexts < min(size, MIN_CONTEXTS):
        raise ConfigError(
            f"model.word_initializer: found 'counted' with {size:,} tokens, whose neighbours would "
            f"take {4 * size * MIN_CONTEXTS / 2**30:.1f} GiB; allowed is 1 GiB, about "
            f"{MAX_COUNTS // MIN_CONTEXTS:,} tokens. Choose a smaller vocabulary or "
            "--word-initializer normal."
        )
    context_of = np.full(size + 1, -1)  # the last for the gaps between documents
    context_of[np.argsort(-counts, kind="stable")[:num_contexts]] = np.arange(num_contexts)
    near = np.zeros(size * num_contexts, dtype=np.float32)
    for documents in counted_documents(corpus):
        words = with_gaps(documents)
        contexts = context_of[words]
        for distance in range(1, WINDOW + 1):
            for word, context in (
                (words[:-distance], contexts[distance:]),
                (words[distance:], contexts[:-distance]),
            ):
                is_counted = (word >= 0) & (context >= 0)
                places = (word * num_contexts + context)[is_counted]
                np.add.at(near, places, np.float32(1))
    return torch.from_numpy(near).view(size, num_contexts)


def with_gaps(documents: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Join documents with `WINDOW` times -1 between them, so that no neighbours cross them."""
    gap = np.full(WINDOW, -1)
    return np.concatenate([part for ids in documents for part in (ids.astype(np.int64), gap)])


def positive_pmi(counts: Tensor) -> Tensor:
    """Compute positive pointwise mutual information `[tokens, contexts]`, in place.

    It is the logarithm of how much more often two tokens are neighbours than chance would have it,
    and 0 where that is less often.
    """
    of_tokens, of_contexts = counts.sum(1).clamp(min=1), counts.sum(0).clamp(min=1) ** SMOOTHING
    counts /= of_tokens[:, None]
    counts *= of_contexts.sum() / of_contexts
    return counts.log_().clamp_(min=0)


def factorize(matrix: Tensor, rank: int) -> Tensor:
    """Compute vectors `[rows, rank]` whose products with vectors of the columns are the matrix.

    They are the left singular vectors times the roots of the singular values.
    """
    kept = min(rank, *matrix.shape)
    found = torch.svd_lowrank(matrix, min(kept + OVERSAMPLING, *matrix.shape), niter=ITERATIONS)
    vectors, values = found[0][:, :kept], found[1][:kept]
    return torch.nn.functional.pad(vectors * values.sqrt(), (0, rank - kept))
