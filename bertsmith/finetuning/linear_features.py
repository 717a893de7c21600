"""Features that a linear head is fitted to: standardized vectors and counted n-grams of texts.

A linear head is logistic regression on frozen vectors of texts and on TF-IDF of their tokens. An
n-gram is a token or a pair of neighbouring tokens.

Means, scales, n-grams and their document frequencies come from the texts that the head learns from.
In a cross-validation these are the texts outside the fold, so that the fold stays unseen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.logistic_regression import Features, LinearWeights
from bertsmith.tasks.token_ngrams import TokenNgrams
from bertsmith.tokenization.tokenizer import Tokenizer

MAX_WEIGHTS = 20_000_000
"""Largest number of weights for n-grams, the number of n-grams times that of labels: 80 MB."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts that a head learns from: their token ids (`examples`), vectors and labels.

    Shapes: `vectors` fp32 `[texts, hidden]`, zeros if only the counted tokens should decide;
    `targets` 0 and 1, or probabilities, fp32 `[texts, labels]`; `importance`, factors of the losses
    by class weights, fp32 `[texts, 1]` or `[texts, labels]`, or None for 1.
    """

    examples: EncodedExamples
    vectors: NDArray[np.float32]
    targets: NDArray[np.float32]
    importance: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def select(self, rows: NDArray[np.int64]) -> Self:
        """Return the texts at these indices, in their order."""
        return type(self)(
            self.examples.select(rows.tolist()),
            self.vectors[rows],
            self.targets[rows],
            None if self.importance is None else self.importance[rows],
        )


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of each dimension of vectors, fp64 `[hidden]`.

    `scale` is the standard deviation times the root of the vectors' width. So standardized vectors
    have a length of about 1, as the TF-IDF of a text has, and both weigh the same.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, vectors: NDArray[np.float32], part_sizes: Sequence[int]) -> Self:
        """Compute the standardization of vectors, fp32 `[texts, hidden]`.

        A vector may consist of several parts side by side, such as that of an encoder and a mean of
        counted vectors. Each part is standardized for itself, so that all parts weigh the same.

        Args:
            part_sizes: the width of each part; their sum is `hidden`.
        """
        parts = np.split(vectors, np.cumsum(part_sizes)[:-1], axis=1)
        return cls(
            np.concatenate([part.mean(0, dtype=np.float64) for part in parts]),
            np.concatenate([_scale_of(part) for part in parts]),
        )

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Standardize vectors, to fp32 `[texts, hidden]`."""
        return ((vectors - self.mean) / self.scale).astype(np.float32)


@dataclass(frozen=True)
class FeatureExtractor:
    """Extractor of features of texts, with the statistics of the texts that it was fitted to."""

    standardization: Standardization
    ngrams: TokenNgrams

    def extract(self, vectors: NDArray[np.float32], examples: EncodedExamples) -> Features:
        """Compute the features of texts; `vectors` are fp32 `[texts, hidden]`."""
        return Features(self.standardization.apply(vectors), self.ngrams.transform(examples))

    def head_of(self, weights: LinearWeights) -> LinearHead:
        """Return the head for vectors as the encoder gives them, from weights for the features.

        The standardization becomes part of the weights and biases.
        """
        vector_weights = weights.dense / self.standardization.scale[:, None]
        bias = weights.bias - self.standardization.mean @ vector_weights
        return LinearHead(
            vector_weights.astype(np.float32), bias.astype(np.float32), self.ngrams, weights.sparse
        )


@dataclass(frozen=True)
class FeatureSettings:
    """Settings of the features of texts.

    `special_ids` are tokens such as [CLS], which are not counted. `max_ngrams` is the largest
    number of n-grams. `part_sizes` are the widths of the parts that stand side by side in each
    text's vector, each of which is standardized for itself.
    """

    vocab_size: int
    special_ids: frozenset[int]
    max_ngrams: int
    part_sizes: tuple[int, ...]

    @classmethod
    def of(cls, texts: LabelledTexts, tokenizer: Tokenizer, part_sizes: Sequence[int] = ()) -> Self:
        """Return the settings for these texts; without `part_sizes`, vectors have one part."""
        return cls(
            tokenizer.vocab_size,
            frozenset(tokenizer.special_ids),
            MAX_WEIGHTS // texts.targets.shape[1],
            tuple(part_sizes) or (texts.vectors.shape[1],),
        )

    def fit(self, texts: LabelledTexts) -> FeatureExtractor:
        """Count n-grams in texts, and compute the mean and scale of their vectors."""
        return FeatureExtractor(
            Standardization.fit(texts.vectors, self.part_sizes),
            TokenNgrams.fit(texts.examples, self.vocab_size, self.special_ids, self.max_ngrams),
        )


def _scale_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    # The factor, the root of the width, gives vectors a length of about 1.
    scale = vectors.std(0, dtype=np.float64) * np.sqrt(vectors.shape[1])
    # A dimension that has the same value in all texts, up to rounding, says nothing about them.
    # Divided by infinity it becomes 0.
    scale[scale <= 1e-6 * scale.max()] = np.inf
    return scale
