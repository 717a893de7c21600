"""The logit lens: what a model would predict if it ended after each layer (nostalgebraist 2020).

The head reads the vectors of every layer as if they were those of the last layer. If the family has
a final norm, it is applied first.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.inspection.head_outputs import apply_head
from bertsmith.inspection.layer_outputs import LayerOutputs
from bertsmith.model.bert import BertModel


def iter_lens(
    model: BertModel, head: str, layers: LayerOutputs, batch: Batch, positions: Sequence[int]
) -> Iterator[Tensor]:
    """Yield the head's logits at each layer, fp32 [positions, outputs], embeddings first.

    The logits of the last layer are the model's own. `positions` are as in `apply_head`, and
    `batch` is the sequence from which `layers` were computed. Layers come one at a time, since the
    logits of all words at all layers of a base model take 200 MB for 128 tokens.
    """
    last_layer = len(layers.hidden_states) - 1
    for layer, hidden in enumerate(layers.hidden_states):
        with torch.no_grad():
            # The vectors of the last layer are normalized already.
            normed = hidden if layer == last_layer else model.final_norm(hidden)
            (logits,) = apply_head(model, head, normed, batch, positions)  # of the one sequence
        yield logits.cpu()
