"""Logits of a task's head in fp32."""

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


def sequence_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads the pooler, fp32 `[sequences, outputs]`.

    The sequences are in the order of the batch.
    """
    return _apply(model, model.encode_pooled(batch), head)


def token_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads every token, fp32 `[tokens, outputs]`.

    The tokens are in the order of the packed row.
    """
    return _apply(model, model.encode(batch), head)


def _apply(model: BertModel, vectors: Tensor, name: str) -> Tensor:
    head = model.heads[name]
    # At inference the head stays in fp32, while the encoder may compute in bf16.
    dtype = next(head.parameters()).dtype
    return model.apply_to_rows(head, vectors.to(dtype)).float()
