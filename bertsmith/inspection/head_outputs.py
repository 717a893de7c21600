"""Outputs of a head of a task or of pre-training, through which gradients can flow."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch, Queries, pack
from bertsmith.model.bert import TOKEN_HEADS, BertModel


def pack_copies(
    model: BertModel, ids: NDArray[np.int32], type_ids: NDArray[np.int32], copies: int = 1
) -> Batch:
    """Pack `copies` of a row of tokens, both int32 [tokens], on the model's device."""
    return pack([ids] * copies, [type_ids] * copies).to(model.device)


def apply_head(
    model: BertModel, head: str, hidden: Tensor, batch: Batch, positions: Sequence[int]
) -> Tensor:
    """Compute a head's logits for copies of one sequence, fp32 [copies, positions, outputs].

    If the head reads one vector of a sequence, there is one position, and `positions` is ignored.

    Args:
        hidden: the last layer's vectors of all copies, [tokens, hidden].
        batch: the copies, as `pack_copies` makes them.
        positions: the tokens whose logits are computed, if the head reads every token.
    """
    module = model.heads[head]
    if head not in TOKEN_HEADS:
        return module(model.pool(hidden, batch)).float()[:, None]
    copies = batch.num_sequences
    # Copies have one length, and `hidden` has no padding.
    chosen = hidden.view(copies, -1, hidden.shape[-1])[:, list(positions)]
    if head == "masked_lm":
        logits = module(chosen.flatten(0, 1), model.embeddings.word.weight)
    else:
        logits = module(chosen.flatten(0, 1))
    outputs = logits.shape[1] if logits.ndim == 2 else 1  # "replaced_token" has no second axis
    return logits.float().view(copies, len(positions), outputs)


def queries_of(model: BertModel, head: str) -> Queries:
    """Return the tokens of a sequence whose vectors a head reads: all, or the first or last one."""
    if head in TOKEN_HEADS:
        return "all"
    return "first" if model.pooler is None else model.pooler.queries


def apply_text_head(model: BertModel, head: str, token_vectors: Tensor) -> Tensor:
    """Compute the logits of a head that reads one token of each text, fp32 [copies, 1, outputs].

    The logits equal those of `apply_head`. But `token_vectors`, [copies, hidden], are the last
    layer's vectors of only the tokens that the head reads (`queries_of`).
    """
    model.check_pooler()
    pooled = token_vectors if model.pooler is None else model.pooler.project(token_vectors)
    logits: Tensor = model.heads[head](pooled)
    return logits.float()[:, None]
