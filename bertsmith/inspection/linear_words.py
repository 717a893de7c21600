"""The share of each token in the logits of a linear head; no gradients are needed.

A linear head reads the mean of the tokens' vectors, and counts of tokens and of pairs of neighbours
(tasks/linear_head.py). So a logit is a sum over the tokens, plus a bias.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from bertsmith.inspection.decisions import TextDecisions
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText
from bertsmith.tasks.linear_head import LinearHead


def share_logits(head: LinearHead, decided: TextDecisions) -> list[Attribution]:
    """Split the logit of each decision into shares of the tokens; the baseline is its bias.

    The vector of a token is that of the last layer, so it also depends on the other tokens. The
    share of a pair of neighbours is divided equally between the two.
    """
    vectors = decided.layers.vectors.double().cpu().numpy()
    shares = vectors @ head.vector_weights.astype(np.float64) / len(vectors)
    shares += _share_counts(head, decided.shown)
    results = []
    for decision in decided.decisions:
        values, bias = shares[:, decision.color], float(head.bias[decision.color])
        results.append(Attribution(values, bias + float(values.sum()), bias, num_points=0))
    return results


def _share_counts(head: LinearHead, shown: ShownText) -> NDArray[np.float64]:
    """Return the share of the counted n-grams at each token, fp64 [tokens, outputs]."""
    ngrams, ids = head.ngrams, shown.ids.astype(np.int64).tolist()
    shares = np.zeros((len(ids), head.num_outputs))
    words = [place for place, id_ in enumerate(ids) if id_ not in ngrams.special_ids]
    places_of: list[tuple[int, tuple[int, ...]]] = [(ids[place], (place,)) for place in words]
    places_of += [
        ((ids[place] + 1) * ngrams.vocab_size + ids[place + 1], (place, place + 1))
        for place in words
        if place + 1 in words
    ]
    counts = Counter(key for key, _ in places_of)
    counted = ngrams.transform(shown.encoded)  # of a single text
    values = dict(zip(ngrams.keys[counted.columns].tolist(), counted.values, strict=True))
    weights = dict(zip(values, head.ngram_weights[counted.columns], strict=True))
    for key, places in places_of:
        if key in values:
            shares[list(places)] += values[key] * weights[key] / counts[key] / len(places)
    return shares
