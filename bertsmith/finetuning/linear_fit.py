"""Fit a linear head to vectors and token counts; its penalty is chosen by cross-validation.

A linear head is logistic regression with an L2 penalty. It reads frozen vectors of texts, and
TF-IDF of their tokens and pairs of tokens (the *n-grams*).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertsmith.finetuning.linear_features import FeatureExtractor, FeatureSettings, LabelledTexts
from bertsmith.finetuning.mean_of_fits import mean_of_weights, share_of_counts, weighted_mean
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.logistic_regression import LinearWeights, fit, mean_loss
from bertsmith.tokenization.tokenizer import Tokenizer

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of `c` that cross-validation tries. `c` is the inverse of the penalty's strength, as C in
scikit-learn."""
DEFAULT_STRENGTH = 10.0
"""Value of `c` without a cross-validation."""
FEW_TEXTS = 100
"""Number of texts below which biases are penalized, too, and fewer values of `c` are tried."""
FEW_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Values of `c` for few texts."""
FEW_BIAS_VARIANCE = 1.0
"""Variance of the biases, a priori, for few texts with one label each. The shares of labels in so
few texts are due to chance, and biases without a penalty follow these shares. Then choosing `c` by
the loss was no better than the fixed `c` of 10 (`benchmarks/results/few-labels.md`)."""
FEWEST_TO_WEIGH = 32
"""Fewest texts with which a fit to token counts alone becomes a part of the head. The answers to 16
held-out texts say nothing about the weight of that fit (`benchmarks/results/few-labels.md`)."""
TRAINED_STRENGTH = 30.0
"""Value of `c` for vectors of an encoder that was trained on the same texts."""


@dataclass(frozen=True)
class CrossValidation:
    """The scores of a head on texts that were held out while it was fitted."""

    c: float
    """The inverse of the penalty that had the lowest loss."""
    loss: float
    """Mean cross entropy of a held-out text, in nats."""
    accuracy: float
    """The share of texts whose labels are all correct."""
    num_folds: int
    share_of_counts: float = 0.0
    """Weight of the fit to token counts alone, from 0 to 1; see `fit_mean_weights`."""


@dataclass(frozen=True)
class HeldOut:
    """The penalty with the lowest loss in a cross-validation, and its logits of the held-out texts.

    `c` is the inverse of the penalty's strength. `texts` are the held-out texts of all folds, fold
    after fold; `logits` are fp32 `[texts, labels]`.
    """

    c: float
    num_folds: int
    texts: LabelledTexts
    logits: NDArray[np.float32]


@dataclass(frozen=True)
class FittedWeights:
    """Weights for the features of texts, and the cross-validation that chose their penalty.

    `held_out` is None if there were no folds. `share_of_counts` is the weight of the fit to token
    counts alone, from 0 to 1; see `fit_mean_weights`.
    """

    extractor: FeatureExtractor
    weights: LinearWeights
    held_out: HeldOut | None
    share_of_counts: float = 0.0


def fit_linear_head(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    tokenizer: Tokenizer,
    *,
    is_multi_label: bool,
    threshold: float = 0.5,
) -> tuple[LinearHead, CrossValidation | None]:
    """Fit a head whose penalty and whose share of token counts come from a cross-validation.

    Args:
        folds: the indices of the texts that each fold holds out; as for `fit_mean_weights`.
        threshold: the probability from which on a text has a label, if it may have several.

    Returns:
        The head, and the scores of the cross-validation if there was one.
    """
    settings = FeatureSettings.of(texts, tokenizer)
    fitted = fit_mean_weights(texts, folds, settings, is_multi_label=is_multi_label)
    scores = score_fit(fitted, is_multi_label=is_multi_label, threshold=threshold)
    return fitted.extractor.head_of(fitted.weights), scores


def fit_mean_weights(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    settings: FeatureSettings,
    *,
    is_multi_label: bool,
) -> FittedWeights:
    """Fit weights whose logits are the weighted mean of two fits.

    The first fit reads vectors and token counts; the vectors decide most. The second fit reads
    token counts alone, which is better where words tell the label, as with topics. Their mean is
    better than either fit (`benchmarks/results/few-labels.md`). `share_of_counts` computes the
    weight of the second fit from the held-out texts. Both fits are linear, so their mean is a
    single head, which predicts as fast as one of them. With fewer than `FEWEST_TO_WEIGH` texts, or
    without folds, there is only the first fit.

    With fewer than `FEW_TEXTS` texts of one label each, biases are penalized, too.

    Args:
        folds: the indices of the texts that each fold holds out; without folds `c` is
            `DEFAULT_STRENGTH`.
    """
    joint = fit_weights(texts, folds, settings, is_multi_label=is_multi_label)
    # If all vectors are zeros (`--head counts`), the first fit has read token counts alone, too.
    if joint.held_out is None or len(texts) < FEWEST_TO_WEIGH or not texts.vectors.any():
        return joint
    without_vectors = replace(texts, vectors=np.zeros_like(texts.vectors))
    counts = fit_weights(without_vectors, folds, settings, is_multi_label=is_multi_label)
    assert counts.held_out is not None
    held_out = joint.held_out
    share = share_of_counts(
        held_out.logits, counts.held_out.logits, held_out.texts, is_multi_label=is_multi_label
    )
    logits = weighted_mean(held_out.logits, counts.held_out.logits, share)
    return FittedWeights(
        joint.extractor,
        mean_of_weights(joint.weights, counts.weights, share),
        replace(held_out, logits=logits),
        share,
    )


def fit_weights(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    settings: FeatureSettings,
    *,
    is_multi_label: bool,
) -> FittedWeights:
    """Fit weights to the features of texts, with the penalty of the lowest held-out loss.

    Without folds the penalty is fixed.
    """
    are_few = len(texts) < FEW_TEXTS
    bias_variance = FEW_BIAS_VARIANCE if are_few and not is_multi_label else math.inf
    held_out = None
    if folds:
        held_out = cross_validate(
            texts,
            folds,
            settings,
            FEW_STRENGTHS if are_few else STRENGTHS,
            is_multi_label=is_multi_label,
            bias_variance=bias_variance,
        )
    extractor = settings.fit(texts)
    weights = fit(
        extractor.extract(texts.vectors, texts.examples),
        texts.targets,
        DEFAULT_STRENGTH if held_out is None else held_out.c,
        is_multi_label=is_multi_label,
        importance=texts.importance,
        bias_variance=bias_variance,
    )
    return FittedWeights(extractor, weights, held_out)


def fit_to_trained_vectors(
    texts: LabelledTexts, tokenizer: Tokenizer, *, is_multi_label: bool
) -> LinearHead:
    """Fit a head to the vectors of an encoder that was trained on the same texts.

    Tokens are not counted. The penalty is fixed, since a cross-validation would mislead: the
    encoder has already learned from the texts of every fold.
    """
    extractor = replace(FeatureSettings.of(texts, tokenizer), max_ngrams=0).fit(texts)
    weights = fit(
        extractor.extract(texts.vectors, texts.examples),
        texts.targets,
        TRAINED_STRENGTH,
        is_multi_label=is_multi_label,
        importance=texts.importance,
    )
    return extractor.head_of(weights)


def cross_validate(
    texts: LabelledTexts,
    folds: Sequence[NDArray[np.int64]],
    settings: FeatureSettings,
    strengths: Sequence[float] = STRENGTHS,
    *,
    is_multi_label: bool,
    bias_variance: float = math.inf,
) -> HeldOut:
    """Fit a head with each of `strengths` while a fold is held out; return the best one's logits.

    The head that predicts a held-out text knows nothing of it. Its n-grams, their document
    frequencies, and the mean and scale of vectors come from the other folds.
    """
    all_rows = np.arange(len(texts))
    logits = {c: np.zeros_like(texts.targets) for c in strengths}
    with progress_bar("choosing the penalty", len(folds) * len(strengths)) as advance:
        for fold in folds:
            train, held_out = texts.select(np.setdiff1d(all_rows, fold)), texts.select(fold)
            extractor = settings.fit(train)
            train_features = extractor.extract(train.vectors, train.examples)
            held_out_features = extractor.extract(held_out.vectors, held_out.examples)
            weights: LinearWeights | None = None
            for c in strengths:
                # The fit starts with the weights for the previous `c`, which are similar.
                weights = fit(
                    train_features,
                    train.targets,
                    c,
                    is_multi_label=is_multi_label,
                    start=weights,
                    importance=train.importance,
                    bias_variance=bias_variance,
                )
                logits[c][fold] = weights.logits(held_out_features)
                advance(1)
    # All texts, or with many texts those of the only fold.
    scored_rows = np.concatenate(list(folds))
    scored = texts.select(scored_rows)
    losses = {
        c: mean_loss(
            logits_of_c[scored_rows],
            scored.targets,
            is_multi_label=is_multi_label,
            importance=scored.importance,
        )
        for c, logits_of_c in logits.items()
    }
    best_c = min(losses, key=lambda c: losses[c])
    return HeldOut(best_c, len(folds), scored, logits[best_c][scored_rows])


def score_fit(
    fitted: FittedWeights, *, is_multi_label: bool, threshold: float = 0.5
) -> CrossValidation | None:
    """Score the answers to the held-out texts; None if there were no folds."""
    if fitted.held_out is None:
        return None
    scores = score_held_out(fitted.held_out, is_multi_label=is_multi_label, threshold=threshold)
    return replace(scores, share_of_counts=fitted.share_of_counts)


def score_held_out(
    held_out: HeldOut, *, is_multi_label: bool, threshold: float = 0.5
) -> CrossValidation:
    """Score the logits of the held-out texts."""
    texts = held_out.texts
    loss = mean_loss(
        held_out.logits,
        texts.targets,
        is_multi_label=is_multi_label,
        importance=texts.importance,
    )
    if is_multi_label:
        threshold_logit = math.log(threshold / (1 - threshold))
        is_right = ((held_out.logits >= threshold_logit) == (texts.targets > 0)).all(1)
    else:
        is_right = held_out.logits.argmax(1) == texts.targets.argmax(1)
    accuracy = float(is_right.mean())
    return CrossValidation(held_out.c, loss=loss, accuracy=accuracy, num_folds=held_out.num_folds)
