"""Logistic regression on dense and sparse features together, by L-BFGS.

The features of a text are its vector (dense) and the TF-IDF of its tokens (sparse). The solution
minimizes the sum of cross entropies plus the sum of squared weights divided by 2 c. Biases are
penalized only if a `bias_variance` is given. scikit-learn's LogisticRegression has the same
solution with C = c. For two labels, C has to be 2 c: scikit-learn then has one weight for each
feature, and this module two.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.tasks.lbfgs import minimize
from bertsmith.tasks.token_ngrams import SparseRows

MAX_ITERATIONS = 500
"""Number of steps after which L-BFGS ends in any case."""
TOLERANCE = 1e-4
"""Largest entry of the gradient of the mean loss at which L-BFGS ends, as in scikit-learn."""


@dataclass(frozen=True)
class Features:
    """Features of texts: fp32 `[texts, dense]` and a sparse matrix `[texts, sparse]`."""

    dense: NDArray[np.float32]
    sparse: SparseRows

    def __len__(self) -> int:
        return len(self.dense)


@dataclass(frozen=True)
class LinearWeights:
    """Weights for the features and for the bias, fp32; an output is the logit of a label.

    Shapes: `dense` `[dense, outputs]`, `sparse` `[sparse, outputs]`, `bias` `[outputs]`.
    """

    dense: NDArray[np.float32]
    sparse: NDArray[np.float32]
    bias: NDArray[np.float32]

    def logits(self, features: Features) -> NDArray[np.float32]:
        """Compute logits, fp32 `[texts, outputs]`."""
        logits: NDArray[np.float32] = (
            features.dense @ self.dense + features.sparse.multiply(self.sparse) + self.bias
        )
        return logits


def fit(
    features: Features,
    targets: NDArray[np.float32],
    c: float,
    *,
    is_multi_label: bool,
    start: LinearWeights | None = None,
    importance: NDArray[np.float32] | None = None,
    bias_variance: float = math.inf,
) -> LinearWeights:
    """Fit weights and biases to the targets.

    Args:
        features: the features of the texts.
        targets: 0 and 1, or probabilities, fp32 `[texts, outputs]`; each row sums to 1 unless
            `is_multi_label`.
        c: inverse strength of the penalty.
        is_multi_label: whether each output is an independent yes or no.
        start: weights to begin with, such as those for another `c`; None for zeros.
        importance: weights of the losses, fp32 `[texts, 1]`, or with `is_multi_label` `[texts,
            outputs]`; None for 1.
        bias_variance: the sum of squared biases divided by twice this number is added to the sum of
            cross entropies. If it is infinite, biases have no penalty.
    """
    # All weights are one matrix: the rows of dense features, those of sparse ones, and the biases.
    sizes = [features.dense.shape[1], features.sparse.num_columns, 1]
    num_outputs = targets.shape[1]
    dense, gold = torch.from_numpy(features.dense), torch.from_numpy(targets)
    sparse, transposed = _to_bags(features.sparse)
    weights = torch.zeros(sum(sizes), num_outputs)
    if start is not None:
        parts = (start.dense, start.sparse, start.bias[None])
        weights = torch.cat([torch.from_numpy(part) for part in parts])
    loss_weights = torch.ones(1, 1) if importance is None else torch.from_numpy(importance)
    # The mean loss is minimized, so the penalties of the sum are divided by the number of texts.
    num_texts = len(features)
    strength = 1 / (c * num_texts)
    bias_strength = 1 / (bias_variance * num_texts)

    def compute_loss(all_weights: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the mean loss with its penalty, a scalar, and its gradient by `all_weights`.

        The gradient and `all_weights` are fp32 `[sum(sizes), outputs]`.
        """
        dense_weights, sparse_weights, bias = torch.split(all_weights, sizes)
        logits = dense @ dense_weights + sparse.multiply(sparse_weights) + bias
        if is_multi_label:
            losses = F.binary_cross_entropy_with_logits(logits, gold, reduction="none")
            errors = logits.sigmoid() - gold
        else:
            losses = -(logits.log_softmax(1) * gold)
            errors = logits.softmax(1) - gold
        loss = (losses * loss_weights).sum()
        # `errors` are the derivatives of the losses by the logits. Multiplied by the features, they
        # are the derivatives by the weights.
        errors = errors * loss_weights
        penalized = all_weights[:-1]  # all but the biases
        gradient = torch.cat(
            [dense.T @ errors, transposed.multiply(errors), errors.sum(0, keepdim=True)]
        )
        gradient /= num_texts
        gradient[:-1] += strength * penalized
        gradient[-1:] += bias_strength * bias
        penalty = strength * penalized.square().sum() + bias_strength * bias.square().sum()
        return loss / num_texts + penalty / 2, gradient

    weights = minimize(compute_loss, weights, tolerance=TOLERANCE, max_iterations=MAX_ITERATIONS)
    dense_weights, sparse_weights, bias = (
        part.numpy().copy() for part in torch.split(weights, sizes)
    )
    return LinearWeights(dense_weights, sparse_weights, bias[0])


def mean_loss(
    logits: NDArray[np.float32],
    targets: NDArray[np.float32],
    *,
    is_multi_label: bool,
    importance: NDArray[np.float32] | None = None,
) -> float:
    """Compute the mean cross entropy of texts, in nats; `importance` is that of `fit`."""
    scores, gold = torch.from_numpy(logits).double(), torch.from_numpy(targets).double()
    if is_multi_label:
        losses = F.binary_cross_entropy_with_logits(scores, gold, reduction="none")
    else:
        losses = -(scores.log_softmax(1) * gold)
    if importance is not None:
        losses = losses * torch.from_numpy(importance)
    return float(losses.sum(1).mean())


@dataclass(frozen=True)
class _Bags:
    """A sparse matrix in the form that `torch.nn.functional.embedding_bag` takes.

    Row `i` of the sparse matrix has its entries at the indices from `starts[i]` up to before
    `starts[i + 1]`: the columns of the entries are in `rows`, since each multiplies the row of that
    number in a dense matrix, and the values are in `weights`.
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor

    def multiply(self, matrix: Tensor) -> Tensor:
        """Multiply the sparse matrix by a dense one, fp32."""
        return F.embedding_bag(
            self.rows, matrix, self.starts, mode="sum", per_sample_weights=self.weights
        )


def _to_bags(matrix: SparseRows) -> tuple[_Bags, _Bags]:
    """Convert a sparse matrix, and its transpose, to embedding bags."""
    bags = _Bags(
        rows=torch.from_numpy(matrix.columns),
        starts=torch.from_numpy(matrix.starts[:-1]),
        weights=torch.from_numpy(matrix.values),
    )
    order = np.argsort(matrix.columns, kind="stable")  # sorts the entries by their column
    rows = np.repeat(np.arange(len(matrix)), np.diff(matrix.starts))
    column_lengths = np.bincount(matrix.columns, minlength=matrix.num_columns)
    column_starts = np.concatenate([[0], np.cumsum(column_lengths)])[:-1]
    transposed = _Bags(
        rows=torch.from_numpy(rows[order]),
        starts=torch.from_numpy(column_starts),
        weights=torch.from_numpy(matrix.values[order]),
    )
    return bags, transposed
