"""What a model's last layer gives, seen from beside: its vectors, whoever calls the model.

A task's own way through the model stays as it is; who compares two models looks on.
"""

import contextlib
from collections.abc import Iterator

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel


class LastLayer:
    """The vectors of the batch that went through the model last."""

    def __init__(self) -> None:
        self._vectors: Tensor | None = None

    def see(self, vectors: Tensor) -> None:
        """Take in what the layer gave, which may have rows of filling at its end."""
        self._vectors = vectors

    def vectors(self, batch: Batch) -> Tensor:
        """`[tokens, hidden]`; of a batch of which every token was computed."""
        assert self._vectors is not None and len(self._vectors) >= batch.num_tokens
        return self._vectors[: batch.num_tokens]


@contextlib.contextmanager
def watch_last_layer(model: BertModel, *, every_token: bool = True) -> Iterator[LastLayer]:
    """In the block, what the last layer of `model` gives is seen: of every token, or of those that
    are read anyway."""
    seen = LastLayer()
    hook = model.layers[-1].register_forward_hook(lambda layer, given, found: seen.see(found))
    try:
        with computing_every_token(model) if every_token else contextlib.nullcontext():
            yield seen
    finally:
        hook.remove()


@contextlib.contextmanager
def computing_every_token(model: BertModel) -> Iterator[None]:
    """In the block, the last layer is computed for all tokens."""
    before, model.every_token = model.every_token, True
    try:
        yield
    finally:
        model.every_token = before
