"""Logits of a task's head in fp32, for the sequences of a batch or for their tokens."""

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


def sequence_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads one pooled vector, fp32 `[sequences, outputs]`.

    In a BERT the vector is the pooler's, of [CLS]. The sequences are in the order of the batch.
    """
    return _apply(model, model.encode_pooled(batch), head)


def token_logits(model: BertModel, batch: Batch, head: str) -> Tensor:
    """Compute the logits of a head that reads every token, fp32 `[tokens, outputs]`.

    The tokens are in the order of the packed row, in which all sequences follow one another.
    """
    return _apply(model, model.encode(batch), head)


def _apply(model: BertModel, vectors: Tensor, name: str) -> Tensor:
    """Apply the head `name` to vectors, `[rows, hidden]`."""
    head = model.heads[name]
    # At inference the head stays in fp32, while the encoder may compute in bf16.
    dtype = next(head.parameters()).dtype
    return model.apply_to_rows(head, vectors.to(dtype)).float()
