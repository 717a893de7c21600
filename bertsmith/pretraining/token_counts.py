"""Token counts of a corpus, and the loss of a model that predicts by token frequency alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.corpus import Corpus
from bertsmith.system.progress import tracked

COUNTED_TOKENS = 20_000_000
"""In a corpus of n times as many tokens (n is rounded down), every n-th document is counted."""
DOCUMENTS_AT_ONCE = 1000

IdArray = NDArray[np.int64]


def counted_documents(
    corpus: Corpus, progress_label: str = "counting tokens"
) -> Iterator[list[NDArray[Any]]]:
    """Yield the token ids of the documents that are counted, up to 1,000 documents at once.

    Each document is an array of integers `[tokens]`. Of a large corpus, evenly spread documents are
    taken; see `COUNTED_TOKENS`.
    """
    # `document_starts` are numbers of sentences, and `sentence_starts` offsets of tokens. Both have
    # an entry more at the end, so document d has the tokens from bounds[d] to before bounds[d + 1].
    bounds = corpus.sentence_starts[corpus.document_starts]
    stride = max(1, corpus.num_tokens // COUNTED_TOKENS)
    documents = range(0, corpus.num_documents, stride)
    starts = range(0, len(documents), DOCUMENTS_AT_ONCE)
    for first in tracked(starts, progress_label):
        chosen = documents[first : first + DOCUMENTS_AT_ONCE]
        yield [
            corpus.token_ids(int(bounds[document]), int(bounds[document + 1]))
            for document in chosen
        ]


def unigram_entropy(train: Corpus, held_out: Corpus) -> float:
    """Compute the cross entropy (nats per token) of eval tokens under training frequencies.

    One is added to every count, so that no token has the probability 0. Special tokens are left
    out, as in masking. Of large splits, evenly spread documents are read (`counted_documents`).
    """
    ordinary = np.ones(train.vocab_size, dtype=bool)
    ordinary[list(train.tokenizer().special_ids)] = False
    train_counts = count_sampled_tokens(train)[ordinary] + 1
    eval_counts = count_sampled_tokens(held_out)[ordinary]
    log_probs = np.log(train_counts / train_counts.sum())
    return float(-(eval_counts * log_probs).sum() / max(1, eval_counts.sum()))


def count_sampled_tokens(corpus: Corpus) -> IdArray:
    """Count each token id in the documents of `counted_documents`, int64 `[vocabulary]`.

    `Corpus.count_tokens` counts the tokens of all documents.

    Raises:
        CorpusError: a document has an id beyond the vocabulary.
    """
    counts = np.zeros(corpus.vocab_size, dtype=np.int64)
    for documents in counted_documents(corpus):
        counts += corpus.count_ids(np.concatenate(documents))
    return counts
