"""Attention and vectors of a row of tokens in all layers of a model."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.inspection.head_vectors import HeadVectors, recording_vectors
from bertsmith.inspection.layer_recorder import AttentionHead, LayerRecorder
from bertsmith.model.bert import BertModel


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
        """The vectors that heads of tasks read, [tokens, hidden]."""
        return self.hidden_states[-1]


@torch.no_grad()
def compute_layers(
    model: BertModel, batch: Batch, without: Collection[AttentionHead] = ()
) -> LayerOutputs:
    """Compute the attention and the vectors of every layer for a batch of one sequence.

    The attention heads of `without` add nothing to their layers, but `attentions` still has their
    weights.
    """
    assert batch.num_sequences == 1
    attentions: list[Tensor] = []
    length = batch.num_tokens

    def receive(layer: int, blocks: Sequence[Tensor]) -> None:
        # One sequence is one block of one row; [sequences, heads, length, length].
        attentions.append(blocks[0][0, :, :length, :length].float().cpu())

    recorder = LayerRecorder(receive, without)
    with recording_vectors([layer.attention for layer in model.layers]) as calls:
        model.encode(batch, recorder)
    assert recorder.hidden_states is not None
    head_vectors = tuple(call.vectors(length, length) for call in calls)
    return LayerOutputs(tuple(attentions), tuple(recorder.hidden_states), head_vectors)
