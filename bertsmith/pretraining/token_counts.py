"""Token counts of a corpus, and the loss of a model that predicts by token frequency alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.corpus import Corpus
from bertsmith.system.progress import tracked

COUNTED_TOKENS = 20_000_000
"""Number of tokens up to which all documents are counted; beyond it, evenly spread ones are."""
DOCUMENTS_AT_ONCE = 1000

IdArray = NDArray[np.int64]


def counted_documents(
    corpus: Corpus, what: str = "counting tokens"
) -> Iterator[list[NDArray[Any]]]:
    """Yield the token ids of the documents that are counted, up to 1,000 at once.

    Each document is an array of integers `[tokens]`. If the corpus has more than `COUNTED_TOKENS`
    tokens, evenly spread documents are taken.
    """
    bounds = corpus.sentence_starts[corpus.document_starts]
    stride = max(1, corpus.num_tokens // COUNTED_TOKENS)
    documents = range(0, corpus.num_documents, stride)
    starts = range(0, len(documents), DOCUMENTS_AT_ONCE)
    for first in tracked(starts, what):
        chosen = documents[first : first + DOCUMENTS_AT_ONCE]
        yield [corpus.token_ids(int(bounds[i]), int(bounds[i + 1])) for i in chosen]


def unigram_entropy(train: Corpus, held_out: Corpus) -> float:
    """Compute the cross entropy (nats per token) of eval tokens under training frequencies.

    Frequencies have one added to every count. Special tokens are left out, as in masking. In splits
    of more than 20 M tokens, evenly spread documents are read.
    """
    ordinary = np.ones(train.vocab_size, dtype=bool)
    ordinary[list(train.tokenizer().special_ids)] = False
    train_counts = token_counts(train)[ordinary] + 1
    eval_counts = token_counts(held_out)[ordinary]
    log_probs = np.log(train_counts / train_counts.sum())
    return float(-(eval_counts * log_probs).sum() / max(1, eval_counts.sum()))


def token_counts(corpus: Corpus) -> IdArray:
    """Count each token id in evenly spread documents, int64 `[vocabulary]`."""
    counts = np.zeros(corpus.vocab_size, dtype=np.int64)
    for documents in counted_documents(corpus):
        counts += np.bincount(np.concatenate(documents), minlength=corpus.vocab_size)
    return counts
