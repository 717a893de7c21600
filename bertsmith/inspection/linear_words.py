"""The contribution of each token to the logits of a linear head; no gradients are needed.

A linear head is a logistic regression on a frozen encoder (tasks/linear_head.py). It reads the mean
of the tokens' vectors, and counts of tokens and of pairs of neighbours. So a logit is a sum over
the tokens, plus a bias.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from bertsmith.inspection.decisions import TextDecisions
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText
from bertsmith.tasks.linear_head import LinearHead


def split_logits(head: LinearHead, decided: TextDecisions) -> list[Attribution]:
    """Split the logit of each decision among the tokens; the baseline is its bias.

    The vector of a token comes from the last layer, so it also depends on the other tokens. The
    contribution of a pair of neighbours is divided equally between the two.
    """
    vectors = decided.layers.vectors.double().cpu().numpy()
    contributions = vectors @ head.vector_weights.astype(np.float64) / len(vectors)
    contributions += _split_counts(head, decided.shown)
    results = []
    for decision in decided.decisions:
        label_id = decision.label_id
        values, bias = contributions[:, label_id], float(head.bias[label_id])
        results.append(Attribution(values, bias + float(values.sum()), bias, num_points=0))
    return results


def _split_counts(head: LinearHead, shown: ShownText) -> NDArray[np.float64]:
    """Return what the counted n-grams contribute at each token, fp64 [tokens, outputs]."""
    ngrams, ids = head.ngrams, shown.ids.astype(np.int64).tolist()
    positions = [position for position, id_ in enumerate(ids) if id_ not in ngrams.special_ids]
    # An n-gram is a token or a pair of neighbours.
    # Each n-gram of the text: its key in `TokenNgrams.keys`, and the positions of its tokens.
    occurrences: list[tuple[int, list[int]]] = [
        (ids[position], [position]) for position in positions
    ]
    for position in positions:
        if position + 1 in positions:
            pair_key = (ids[position] + 1) * ngrams.vocab_size + ids[position + 1]
            occurrences.append((pair_key, [position, position + 1]))
    counts = Counter(key for key, _ in occurrences)
    features = ngrams.transform(shown.encoded)  # of a single text
    known_keys = ngrams.keys[features.columns].tolist()
    values = dict(zip(known_keys, features.values, strict=True))
    weights = dict(zip(known_keys, head.ngram_weights[features.columns], strict=True))
    contributions = np.zeros((len(ids), head.num_outputs))
    for key, tokens in occurrences:
        if key in values:
            contributions[tokens] += values[key] * weights[key] / counts[key] / len(tokens)
    return contributions
