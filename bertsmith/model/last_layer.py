"""Access to the last layer's outputs, however the model is called.

Distillation compares these outputs of teacher and student without changing how a task calls its
model.
"""

import contextlib
from collections.abc import Iterator

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


class LastLayer:
    """The last layer's outputs for the batch that the model read last."""

    def __init__(self) -> None:
        self._vectors: Tensor | None = None

    def keep(self, vectors: Tensor) -> None:
        """Store the layer's output, [tokens, hidden], which may end in padding rows."""
        self._vectors = vectors

    def vectors(self, batch: Batch) -> Tensor:
        """Return `[tokens, hidden]` of a batch whose tokens were all computed.

        The dtype is that of the weights.
        """
        assert self._vectors is not None and len(self._vectors) >= batch.num_tokens
        return self._vectors[: batch.num_tokens]


@contextlib.contextmanager
def watch_last_layer(model: BertModel, *, every_token: bool = True) -> Iterator[LastLayer]:
    """Record the last layer's outputs in the block.

    Without `every_token`, only the tokens that the model computes anyway are recorded.
    """
    seen = LastLayer()
    hook = model.final_norm.register_forward_hook(lambda norm, inputs, output: seen.keep(output))
    try:
        with computing_every_token(model) if every_token else contextlib.nullcontext():
            yield seen
    finally:
        hook.remove()


@contextlib.contextmanager
def computing_every_token(model: BertModel) -> Iterator[None]:
    """Compute the last layer for all tokens in the block."""
    before = model.every_token
    model.every_token = True
    try:
        yield
    finally:
        model.every_token = before
