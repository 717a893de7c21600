"""The contribution of each token to the logits of a linear head; no gradients are needed.

A linear head is a logistic regression on a frozen encoder (tasks/linear_head.py). It reads the mean
of the tokens' vectors, and counts of n-grams: of tokens, and of pairs of neighbours. A head that
also learned from a corpus has further weights for n-grams, and a weight for each token. So a logit
is a sum over the tokens, plus a bias.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from bertsmith.inspection.decisions import TextDecisions
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.token_ngrams import TokenNgrams


def split_logits(head: LinearHead, decided: TextDecisions) -> list[Attribution]:
    """Split the logit of each decision among the tokens; the baseline is its bias.

    The vector of a token comes from the last layer, so it also depends on the other tokens. The
    contribution of a pair of neighbours is divided equally between the two.

    Args:
        decided: the decisions, which are labels, and the vectors of the text's tokens.
    """
    shown = decided.shown
    vectors = decided.layers.vectors.double().cpu().numpy()
    contributions = vectors @ head.vector_weights.astype(np.float64) / len(vectors)
    contributions += _split_counts(head.ngrams, head.ngram_weights, shown)
    if (corpus := head.corpus) is not None:
        contributions += _split_counts(corpus.ngrams, corpus.ngram_weights, shown)
        contributions += _split_mean(corpus.token_weights, head.ngrams.special_ids, shown)
    results = []
    for decision in decided.decisions:
        label_id = decision.label_id
        values, bias = contributions[:, label_id], float(head.bias[label_id])
        logit = bias + float(values.sum())
        results.append(Attribution(values, logit=logit, baseline_logit=bias, num_points=0))
    return results


def _split_counts(
    ngrams: TokenNgrams, ngram_weights: NDArray[np.float32], shown: ShownText
) -> NDArray[np.float64]:
    """Return what the counted n-grams contribute at each token, fp64 [tokens, outputs].

    Args:
        ngrams: the n-grams that the head knows.
        ngram_weights: the weights of each, fp32 [ngrams, outputs].
    """
    ids = shown.ids.astype(np.int64).tolist()
    positions = [position for position, id_ in enumerate(ids) if id_ not in ngrams.special_ids]
    # Each n-gram of the text: its key in `TokenNgrams.keys`, and the positions of its tokens. The
    # key of a token is its id, and the keys of pairs are above all ids.
    occurrences: list[tuple[int, list[int]]] = [
        (ids[position], [position]) for position in positions
    ]
    for position in positions:
        if position + 1 in positions:
            pair_key = (ids[position] + 1) * ngrams.vocab_size + ids[position + 1]
            occurrences.append((pair_key, [position, position + 1]))
    counts = Counter(key for key, _ in occurrences)
    # The TF-IDF of each known n-gram of the text, which has a single row.
    features = ngrams.transform(shown.encoded)
    known_keys = ngrams.keys[features.columns].tolist()
    values = dict(zip(known_keys, features.values, strict=True))
    weights = dict(zip(known_keys, ngram_weights[features.columns], strict=True))
    contributions = np.zeros((len(ids), ngram_weights.shape[1]))
    for key, tokens in occurrences:
        if key in values:
            # All occurrences of an n-gram have equal shares, and so have its tokens.
            contributions[tokens] += values[key] * weights[key] / counts[key] / len(tokens)
    return contributions


def _split_mean(
    token_weights: NDArray[np.float32], special_ids: Collection[int], shown: ShownText
) -> NDArray[np.float64]:
    """Return what each token adds to the mean of the tokens' weights, fp64 [tokens, outputs].

    Args:
        token_weights: the weights of each token of the vocabulary, fp32 [vocabulary, outputs].
        special_ids: the ids of the tokens that are left out of the mean.
    """
    is_ordinary = ~np.isin(shown.ids, list(special_ids))
    contributions = np.zeros((len(shown.ids), token_weights.shape[1]))
    contributions[is_ordinary] = token_weights[shown.ids[is_ordinary]] / max(1, is_ordinary.sum())
    return contributions
