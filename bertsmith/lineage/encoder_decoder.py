"""The interface that the Transformer and T5 share, and the generation of their targets."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from bertsmith.errors import InputError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, continue_sequences, evaluating
from bertsmith.lineage.source_target import SourceTarget, TokenRow
from bertsmith.model.cached_view import KeyValueCache, SourceCache
from bertsmith.model.trainable import TrainableModel

SOURCES_AT_ONCE = 64
"""Number of sources that callers should pass to `generate_targets` at once, to bound memory."""

KeysAndValues = tuple[Tensor, Tensor]
"""Keys and values of encoded sources, each [source tokens, heads, head_size]."""


class _SourceAttention(Protocol):
    def project(self, source: Tensor) -> KeysAndValues:
        """Return keys and values of encoded sources, each [source tokens, heads, head_size]."""
        ...


class _DecoderLayer(Protocol):
    source_attention: _SourceAttention


class EncoderDecoder(TrainableModel):
    """A model that encodes a source and decodes a target, whose tokens attend to the source."""

    vocab_size: int
    start_id: int
    """The token that the decoder reads first."""
    end_id: int
    """The token that ends sources and targets."""
    longest: int | None
    """Maximum number of tokens of a source or target; None if there is no limit."""

    config: Any
    """The model's config, such as a `T5Config`."""
    decoder: nn.ModuleList
    """The layers of the decoder; each has a `source_attention`."""

    def set_dropout(self, dropout: float) -> None:
        """Set the dropout of embeddings and of the outputs of layers, also in `config`."""
        raise NotImplementedError

    def encode(self, source: TokenRow, step_indices: Sequence[int] = ()) -> Tensor:
        """Encode sources to vectors, [source tokens, hidden].

        Args:
            step_indices: the index of each source in the training step, by which its dropout is
                drawn; empty outside of training.
        """
        raise NotImplementedError

    def decode(self, batch: SourceTarget) -> Tensor:
        """Encode the sources, then decode `batch.target`, to vectors [target tokens, hidden]."""
        raise NotImplementedError

    def project_source(self, memory: Tensor) -> list[KeysAndValues]:
        """Return each decoder layer's keys and values of encoded sources.

        Args:
            memory: the encoded sources, [source tokens, hidden].
        """
        layers = [cast(_DecoderLayer, layer) for layer in self.decoder]
        return [layer.source_attention.project(memory) for layer in layers]

    def decode_new(
        self,
        input_ids: Tensor,
        lengths: tuple[int, ...],
        target: KeyValueCache,
        source: SourceCache,
    ) -> Tensor:
        """Decode tokens that follow the tokens of `target`, to vectors [tokens, hidden].

        Their keys and values are added to `target`.

        Args:
            input_ids: int64 [tokens], sequence by sequence in the order of `target`.
            lengths: the number of new tokens of each sequence.
            target: the keys and values of the earlier tokens of the targets, for each layer.
            source: the keys and values of the encoded sources, for each layer.
        """
        raise NotImplementedError

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return for each token the logits of the token that follows it, [tokens, vocabulary]."""
        raise NotImplementedError


class TargetReader:
    """An encoder–decoder that reads targets token by token (a `TokenReader`).

    `read` takes new tokens of each target, and returns the logits of its next token; `keep` drops
    all but some targets. Their sources are encoded, and projected to keys and values, only once.
    """

    def __init__(self, model: EncoderDecoder, sources: Sequence[Sequence[int]]) -> None:
        self.model = model
        row = TokenRow.of(sources).to(model.device)
        layers = model.project_source(model.encode(row))
        self.source = SourceCache(row.lengths, layers, model.device)
        self.target = KeyValueCache(len(layers), len(sources), model.device)

    def read(self, new_ids: Sequence[Sequence[int]]) -> Tensor:
        row = TokenRow.of(new_ids).to(self.model.device)
        hidden = self.model.decode_new(row.input_ids, row.lengths, self.target, self.source)
        ends = torch.tensor(row.lengths, device=hidden.device).cumsum(0) - 1
        return self.model.compute_logits(hidden.index_select(0, ends)).float()

    def keep(self, rows: Sequence[int]) -> None:
        self.source.keep(rows)
        self.target.keep(rows)


def generate_targets(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    max_new_tokens: int,
    decoding: Sampling | BeamSearch | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[int]]:
    """Generate the target of each source: tokens up to the end token, `max_new_tokens` at most.

    Args:
        sources: ids of each source, with the special tokens that the model expects.
        decoding: None for greedy decoding; see `continue_sequences`.
        numbers: the number of each source, by which sampling is seeded; by default its index.

    Returns:
        The ids of each target, with the end token if it was reached.

    Raises:
        InputError: a source is empty or longer than the model reads, or has an id out of range.
        CheckpointError: the model's output is not a number.
    """
    for i, source in enumerate(sources):
        _check_source(model, i, source)
    if model.longest is not None:
        max_new_tokens = min(max_new_tokens, model.longest)
    if not sources or max_new_tokens < 1:
        return [[] for _ in sources]
    with evaluating(model):
        reader = TargetReader(model, sources)
        starts = [[model.start_id]] * len(sources)
        return continue_sequences(reader, starts, max_new_tokens, model.end_id, decoding, numbers)


def _check_source(model: EncoderDecoder, number: int, source: Sequence[int]) -> None:
    if not source:
        raise InputError(f"sources, number {number}: it has no tokens. Leave it out.")
    if model.longest is not None and len(source) > model.longest:
        raise InputError(
            f"sources, number {number}: it has {len(source)} tokens, and this model reads "
            f"{model.longest}. Shorten it."
        )
    for token in source:
        if not 0 <= token < model.vocab_size:
            raise InputError(
                f"sources, number {number}: found the token {token}. This model takes 0 to "
                f"{model.vocab_size - 1}. Use the tokenizer saved with the model."
            )
