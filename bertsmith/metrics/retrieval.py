"""Metrics of dense retrieval: recall and mean reciprocal rank.

For each query, a text, the documents are ranked by the cosine of their vectors with the query's.
Every query is compared with every document, so the metrics are exact. Queries are compared in
blocks, so that memory does not grow with their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.names import score_meaning
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.metrics.unit_vectors import unit_length
from bertsmith.system.counts import count_noun

BLOCK_SCORES = 2**24
"""Largest number of similarities in a block, 64 MB. With more documents than this, a block has a
single query."""

MANY_RELEVANT = 64
"""If a query has more relevant documents than this, sorting all documents is faster than counting,
for each relevant one, the documents that rank higher."""

Vectors = NDArray[np.float32]
Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalReport(Report, ReadingCounts):
    """Retrieval metrics: means over the queries, from 0 to 1.

    `recall[k]` is the share of a query's relevant documents that are among the first k; `mrr` (mean
    reciprocal rank) is 1 divided by the rank of the first relevant document.
    """

    recall: Mapping[int, float]
    mrr: float
    num_queries: int
    num_documents: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys of the scores are the names that `--metric` takes."""
        values = super().to_json()
        recall = {f"recall_at_{rank}": value for rank, value in values.pop("recall").items()}
        return {**recall, **values}

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, and remarks."""
        about_recall = "share of the right texts among the first {} of {:,}"
        about_mrr = f"{score_meaning('mrr')}, for {count_noun(self.num_queries, 'text')}"
        return [
            *(
                ScoreLine(f"recall@{rank}", value, about_recall.format(rank, self.num_documents))
                for rank, value in self.recall.items()
            ),
            ScoreLine("MRR", self.mrr, about_mrr),
            *self.notes(lacking="texts"),
        ]


def retrieval_scores(
    queries: Vectors,
    documents: Vectors,
    relevant: Sequence[Sequence[int]],
    ks: Sequence[int],
    own: Sequence[int] = (),
) -> RetrievalReport:
    """Rank all documents by cosine and compute recall and MRR.

    Args:
        queries: vectors, fp32 `[queries, hidden]`.
        documents: vectors, fp32 `[documents, hidden]`.
        relevant: for each query, the indices of the documents that are relevant to it, at least
            one.
        ks: the values of k for recall@k.
        own: for each query, the index of the document with the query's own text, -1 if there is
            none. This document is left out of the ranking, unless it is relevant. Empty if no
            query is a document.

    >>> vectors = np.eye(3, dtype=np.float32)
    >>> scores = retrieval_scores(vectors, vectors[[1, 0, 2]], [[1], [1], [2]], ks=(1,))
    >>> scores.recall[1], scores.mrr
    (0.6666666666666666, 0.8333333333333334)
    """
    ranks = list(iter_ranks(queries, documents, relevant, own))
    return RetrievalReport(
        recall={k: float(np.mean([(row <= k).mean() for row in ranks])) for k in ks},
        mrr=float(np.mean([1 / row.min() for row in ranks])),
        num_queries=len(queries),
        num_documents=len(documents),
    )


def iter_ranks(
    queries: Vectors,
    documents: Vectors,
    relevant: Sequence[Sequence[int]],
    own: Sequence[int],
) -> Iterator[Ranks]:
    """Yield for each query the ranks of its relevant documents, from 1, int64.

    The arguments are those of `retrieval_scores`.
    """
    documents = unit_length(documents)
    size = max(1, BLOCK_SCORES // len(documents))
    for first in range(0, len(queries), size):
        block = unit_length(queries[first : first + size]) @ documents.T
        # NaN, of a diverged model, compares as neither higher nor lower, and would rank first.
        block[np.isnan(block)] = -np.inf
        for query, scores in enumerate(block, start=first):
            documents_of_query = relevant[query]
            if own and own[query] not in (-1, *documents_of_query):
                scores[own[query]] = -np.inf
            yield ranks_of(scores, np.asarray(documents_of_query, dtype=np.int64))


def ranks_of(scores: NDArray[np.float32], indices: NDArray[np.int64]) -> Ranks:
    """Rank the documents at `indices` among all, from 1.

    `scores` is `[documents]`; of equal scores the earlier document ranks higher.
    """
    if len(indices) > MANY_RELEVANT:
        # The first argsort lists the documents by rank; the second one inverts that list.
        return np.argsort(np.argsort(-scores, kind="stable"))[indices] + 1
    ranked = scores[indices][:, None]
    num_higher = (scores > ranked).sum(1)
    num_earlier = ((scores == ranked) & (np.arange(len(scores)) < indices[:, None])).sum(1)
    return num_higher + num_earlier + 1
