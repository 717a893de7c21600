"""Access to the last layer's outputs, whichever method of the model is called.

Distillation compares these outputs of teacher and student; a task need not return them.
"""

import contextlib
from collections.abc import Iterator

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


class LastLayer:
    """The last layer's outputs, after the final norm, for the batch that the model read last."""

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
def watch_last_layer(model: BertModel, *, all_tokens: bool = True) -> Iterator[LastLayer]:
    """Record the last layer's outputs while the `with` block runs.

    With `all_tokens`, the model computes the last layer for all tokens in that time.
    """
    last_layer = LastLayer()
    # The identity in BERT; a norm where the layers have theirs before attention, as in ModernBERT.
    hook = model.final_norm.register_forward_hook(
        lambda norm, inputs, output: last_layer.keep(output)
    )
    try:
        with computing_all_tokens(model) if all_tokens else contextlib.nullcontext():
            yield last_layer
    finally:
        hook.remove()


@contextlib.contextmanager
def computing_all_tokens(model: BertModel) -> Iterator[None]:
    """Let the model compute the last layer for all tokens while the `with` block runs."""
    before = model.computes_all_tokens
    model.computes_all_tokens = True
    try:
        yield
    finally:
        model.computes_all_tokens = before
