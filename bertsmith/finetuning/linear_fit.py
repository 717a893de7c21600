"""Fit a linear head to vectors and token counts; its penalty is chosen by cross-validation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.logistic_regression import Features, LinearWeights, fit, mean_loss
from bertsmith.tasks.token_ngrams import TokenNgrams
from bertsmith.tokenization.tokenizer import Tokenizer

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of `c`, the inverse of the penalty, that cross-validation tries."""
DEFAULT_STRENGTH = 10.0
"""Value of `c` without a cross-validation."""
FEW_TEXTS = 100
"""Number of texts below which biases are penalized, too, and fewer values of `c` are tried."""
FEW_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Values of `c` for few texts."""
FEW_BIAS_VARIANCE = 1.0
"""Variance of the biases, a priori, for few texts with one label each. The shares of labels in so
few texts are due to chance. Biases without a penalty follow them, and then choosing `c` by the loss
was no better than the fixed `c` of 10 (`benchmarks/results/few-labels.md`)."""
TRAINED_STRENGTH = 30.0
"""Value of `c` for vectors of an encoder that was trained on the same texts."""
MAX_WEIGHTS = 20_000_000
"""Largest number of weights for counted tokens, which is the number of n-grams times labels."""


@dataclass(frozen=True)
class CrossValidation:
    """The scores of a head on texts that were held out while it was fitted."""

    c: float
    """The inverse of the penalty that had the lowest loss."""
    loss: float
    """Mean cross entropy of a text, in nats."""
    accuracy: float
    """The share of texts whose labels are all correct."""
    num_folds: int


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of each dimension of vectors, fp64 `[hidden]`.

    Standardized vectors are divided by the root of their width, so that they weigh as much as
    counted tokens, whose rows have length 1.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> "Standardization":
        """Compute the standardization of vectors, fp32 `[texts, hidden]`."""
        scale = vectors.std(0, dtype=np.float64) * np.sqrt(vectors.shape[1])
        # A dimension that is equal in all texts says nothing about them; its vectors become 0.
        scale[scale <= 1e-6 * scale.max()] = np.inf
        return cls(vectors.mean(0, dtype=np.float64), scale)

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Standardize vectors, to fp32 `[texts, hidden]`."""
        return ((vectors - self.mean) / self.scale).astype(np.float32)

    def head_of(self, weights: LinearWeights, ngrams: TokenNgrams) -> LinearHead:
        """Return the head for unscaled vectors, from weights that were fitted to scaled ones."""
        vector_weights = weights.dense / self.scale[:, None]
        bias = weights.bias - self.mean @ vector_weights
        return LinearHead(
            vector_weights.astype(np.float32), bias.astype(np.float32), ngrams, weights.sparse
        )


def fit_linear_head(
    vectors: NDArray[np.float32],
    texts: EncodedExamples,
    targets: NDArray[np.float32],
    folds: Sequence[NDArray[np.int64]],
    tokenizer: Tokenizer,
    *,
    is_multi_label: bool,
    importance: NDArray[np.float32] | None = None,
    threshold: float = 0.5,
) -> tuple[LinearHead, CrossValidation | None]:
    """Fit a head with the penalty that has the lowest loss in cross-validation.

    For fewer than `FEW_TEXTS` texts with one label each, biases are penalized, too.

    Args:
        vectors: fp32 `[texts, hidden]`; zeros if only the counted tokens should decide.
        texts: the tokens of the texts.
        targets: 0 and 1, fp32 `[texts, labels]`.
        folds: the indices that each fold holds out; without folds the penalty is
            `DEFAULT_STRENGTH`.
        importance: factors of the losses, as `logistic_regression.fit` takes them.
        threshold: the probability from which on a text has a label, if it may have several.

    Returns:
        The head, and the scores of the cross-validation if there was one.
    """
    max_ngrams = MAX_WEIGHTS // targets.shape[1]
    ngrams = TokenNgrams.fit(texts, tokenizer.vocab_size, tokenizer.special_ids, max_ngrams)
    standardization = Standardization.of(vectors)
    features = Features(standardization.apply(vectors), ngrams.transform(texts))
    weights, scores = fit_weights(
        features,
        targets,
        folds,
        is_multi_label=is_multi_label,
        importance=importance,
        threshold=threshold,
    )
    return standardization.head_of(weights, ngrams), scores


def fit_weights(
    features: Features,
    targets: NDArray[np.float32],
    folds: Sequence[NDArray[np.int64]],
    *,
    is_multi_label: bool,
    importance: NDArray[np.float32] | None = None,
    threshold: float = 0.5,
) -> tuple[LinearWeights, CrossValidation | None]:
    """Fit weights to features, with the penalty that `fit_linear_head` describes."""
    are_few = len(targets) < FEW_TEXTS
    bias_variance = FEW_BIAS_VARIANCE if are_few and not is_multi_label else math.inf
    scores = None
    if folds:
        strengths = FEW_STRENGTHS if are_few else STRENGTHS
        scores = cross_validate(
            features,
            targets,
            folds,
            strengths,
            is_multi_label=is_multi_label,
            importance=importance,
            bias_variance=bias_variance,
            threshold=threshold,
        )
    c = DEFAULT_STRENGTH if scores is None else scores.c
    weights = fit(
        features,
        targets,
        c,
        is_multi_label=is_multi_label,
        importance=importance,
        bias_variance=bias_variance,
    )
    return weights, scores


def fit_to_trained_vectors(
    vectors: NDArray[np.float32],
    texts: EncodedExamples,
    targets: NDArray[np.float32],
    tokenizer: Tokenizer,
    *,
    is_multi_label: bool,
    importance: NDArray[np.float32] | None = None,
) -> LinearHead:
    """Fit a head to the vectors of an encoder that was trained on the same texts.

    Tokens are not counted. The penalty is fixed, since cross-validation would mislead: the encoder
    knows the texts of every fold.
    """
    ngrams = TokenNgrams.fit(texts, tokenizer.vocab_size, tokenizer.special_ids, max_ngrams=0)
    standardization = Standardization.of(vectors)
    features = Features(standardization.apply(vectors), ngrams.transform(texts))
    weights = fit(
        features, targets, TRAINED_STRENGTH, is_multi_label=is_multi_label, importance=importance
    )
    return standardization.head_of(weights, ngrams)


def cross_validate(
    features: Features,
    targets: NDArray[np.float32],
    folds: Sequence[NDArray[np.int64]],
    strengths: Sequence[float] = STRENGTHS,
    *,
    is_multi_label: bool,
    importance: NDArray[np.float32] | None = None,
    bias_variance: float = math.inf,
    threshold: float = 0.5,
) -> CrossValidation:
    """Score each of `strengths` on folds that are held out, and return the best one's scores."""
    all_rows = np.arange(len(features))
    logits = {c: np.zeros_like(targets) for c in strengths}

    def importance_of(rows: NDArray[np.int64]) -> NDArray[np.float32] | None:
        return None if importance is None else importance[rows]

    with progress_bar("choosing the penalty", len(folds) * len(strengths)) as advance:
        for fold in folds:
            other_rows = np.setdiff1d(all_rows, fold)
            train, held_out = features.select(other_rows), features.select(fold)
            weights: LinearWeights | None = None
            for c in strengths:  # starts with the weights for the last `c`, which are similar
                weights = fit(
                    train,
                    targets[other_rows],
                    c,
                    is_multi_label=is_multi_label,
                    start=weights,
                    importance=importance_of(other_rows),
                    bias_variance=bias_variance,
                )
                logits[c][fold] = weights.logits(held_out)
                advance(1)
    scored = np.concatenate(list(folds))
    losses = {
        c: mean_loss(
            values[scored],
            targets[scored],
            is_multi_label=is_multi_label,
            importance=importance_of(scored),
        )
        for c, values in logits.items()
    }
    best = min(losses, key=lambda c: losses[c])
    if is_multi_label:
        threshold_logit = math.log(threshold / (1 - threshold))
        right = ((logits[best] >= threshold_logit) == (targets > 0)).all(1)
    else:
        right = logits[best].argmax(1) == targets.argmax(1)
    return CrossValidation(best, losses[best], float(right[scored].mean()), len(folds))
