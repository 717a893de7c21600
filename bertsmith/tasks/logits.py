"""Logits of a task's head in fp32, and probabilities from logits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


def sequence_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads the pooler, `[sequences, outputs]`."""
    return _apply(model, model.encode_pooled(batch), head)


def token_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads every token, `[tokens, outputs]`."""
    return _apply(model, model.encode(batch), head)


def _apply(model: BertModel, vectors: Tensor, name: str) -> Tensor:
    head = model.heads[name]
    logits: Tensor = head(vectors.to(next(head.parameters()).dtype))
    return logits.float()


def softmax64(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute probabilities in float64, `[..., classes]`; each row sums to 1."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def sigmoid(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Compute a probability per logit in float64, without overflow."""
    # 1 - p of the larger probability would have fewer digits, or none.
    smaller = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits < 0, smaller, 1.0) / (1 + smaller)
