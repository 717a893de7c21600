"""The logit lens: what a model would predict if it ended after each layer (nostalgebraist 2020).

The head reads the vectors of every layer as it reads those of the last, after the final norm where
the family has one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.inspection.head_outputs import LayerOutputs, apply_head
from bertsmith.model.bert import BertModel


@torch.no_grad()
def compute_lens(
    model: BertModel, head: str, layers: LayerOutputs, batch: Batch, positions: Sequence[int]
) -> list[Tensor]:
    """Compute the head's logits at each layer, fp32 [positions, outputs], embeddings first.

    The last of them are the model's own. `positions` are those of `apply_head`, and the batch is
    the one sequence of which `layers` were computed.
    """
    *lower, last = layers.hidden_states
    read = [*(model.final_norm(hidden) for hidden in lower), last]
    return [apply_head(model, head, hidden, batch, positions)[0].cpu() for hidden in read]
