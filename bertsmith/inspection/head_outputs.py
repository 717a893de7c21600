"""Outputs of a model's head for each layer and position, through which gradients can flow."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch, Queries, pack
from bertsmith.inspection.head_vectors import HeadVectors, recording_vectors
from bertsmith.inspection.layer_recorder import Head, LayerRecorder
from bertsmith.model.bert import TOKEN_HEADS, BertModel


@dataclass(frozen=True, eq=False)
class LayerOutputs:
    """Attention and vectors of a row of tokens in all layers of a model.

    `attentions` has for each layer fp32 [heads, tokens, tokens], a query in each row.
    `hidden_states` are the vectors that enter the first layer, and those that leave each layer,
    fp32 [tokens, hidden]. `head_vectors` has the queries and keys of each layer.
    """

    attentions: tuple[Tensor, ...]
    hidden_states: tuple[Tensor, ...]
    head_vectors: tuple[HeadVectors, ...]

    @property
    def vectors(self) -> Tensor:
        """The vectors that heads read, [tokens, hidden]."""
        return self.hidden_states[-1]


def pack_copies(
    model: BertModel, ids: NDArray[np.int32], type_ids: NDArray[np.int32], copies: int = 1
) -> Batch:
    """Pack `copies` of a row of tokens, both int32 [tokens], on the model's device."""
    return pack([ids] * copies, [type_ids] * copies).to(model.device)


@torch.no_grad()
def compute_layers(model: BertModel, batch: Batch, without: Collection[Head] = ()) -> LayerOutputs:
    """Compute the attention and the vectors of every layer for a batch of one sequence.

    The heads of `without` add nothing to their layers, but `attentions` still has their weights.
    """
    assert batch.num_sequences == 1
    attentions: list[Tensor] = []
    length = batch.num_tokens

    def keep(layer: int, blocks: Sequence[Tensor]) -> None:
        attentions.append(blocks[0][0, :, :length, :length].float().cpu())

    recorder = LayerRecorder(keep, without)
    with recording_vectors([layer.attention for layer in model.layers]) as calls:
        model.encode(batch, recorder)
    assert recorder.hidden_states is not None
    head_vectors = tuple(call.vectors(length, length) for call in calls)
    return LayerOutputs(tuple(attentions), tuple(recorder.hidden_states), head_vectors)


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
    chosen = hidden.view(copies, -1, hidden.shape[-1])[:, list(positions)]
    if head == "masked_lm":
        logits = module(chosen.flatten(0, 1), model.embeddings.word.weight)
    else:
        logits = module(chosen.flatten(0, 1))
    outputs = logits.shape[1] if logits.ndim == 2 else 1  # "replaced_token" has no second axis
    return logits.float().view(copies, len(positions), outputs)


def queries_of(model: BertModel, head: str) -> Queries:
    """Return the tokens whose vectors a head reads."""
    if head in TOKEN_HEADS:
        return "all"
    return "first" if model.pooler is None else model.pooler.queries


def apply_to_read_tokens(model: BertModel, head: str, read: Tensor) -> Tensor:
    """Compute a head's logits as `apply_head` does, from vectors of one token, [copies, hidden].

    This is the token that the head reads; the last layer need not compute the others.
    """
    model.check_pooler()
    pooled = read if model.pooler is None else model.pooler.project(read)
    logits: Tensor = model.heads[head](pooled)
    return logits.float()[:, None]
