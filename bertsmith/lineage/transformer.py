"""The Transformer (Vaswani et al. 2017): an encoder reads the source, a decoder writes the target.

Both are stacks of layers whose LayerNorm comes after the residual connection ("post-norm"). The
decoder's attention to itself is causal, and each of its layers also attends to the encoded source.
Positions are fixed sines. Source, target and output share one embedding, which is multiplied by
the square root of the width where it is read.

The network is that of transformers' `MarianMTModel`. There, as in the paper's own code, sines fill
the first half of a position vector and cosines the second half. In the paper's formula, sines and
cosines alternate. This is only another order of the dimensions, so it makes no difference to a
trained network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.errors import ConfigError
from bertsmith.lineage.config_checks import check_ids, check_probabilities, check_sizes
from bertsmith.lineage.encoder_decoder import EncoderDecoder, KeysAndValues
from bertsmith.lineage.source_target import SourceTarget, TokenRow
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import AttentionView, CrossAttention, SelfAttention
from bertsmith.model.attention_pattern import CAUSAL
from bertsmith.model.cached_view import KeyValueCache, SourceCache
from bertsmith.model.dropout import dropout, set_dropout_sequences
from bertsmith.model.packed_view import PackedView
from bertsmith.model.shape_buckets import fill_up
from bertsmith.system.bounds import check_choice

SIZES = (
    "vocab_size",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "max_position_embeddings",
)
"""Fields that are whole numbers above 0."""


@dataclass(frozen=True)
class TransformerConfig:
    """The config of a Transformer; every field has the name that transformers gives it in `marian`.

    Raises:
        ConfigError: a value has the wrong type, is out of range, or contradicts another field.
    """

    vocab_size: int
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    max_position_embeddings: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation_function: str = "relu"
    pad_token_id: int = 0
    eos_token_id: int = 0
    decoder_start_token_id: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, SIZES)
        check_probabilities(self, ("dropout", "attention_dropout", "activation_dropout"))
        check_ids(self, ("pad_token_id", "eos_token_id", "decoder_start_token_id"), self.vocab_size)
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            if self.d_model % getattr(self, name):
                raise ConfigError(
                    f"d_model is {self.d_model} with {name} {getattr(self, name)}. Choose a "
                    f"multiple of {getattr(self, name)}."
                )
        if self.d_model % 2:
            raise ConfigError(
                f"d_model is {self.d_model}. It must be even, since positions are half sines, half "
                "cosines."
            )
        check_choice("activation_function", self.activation_function, ACTIVATIONS)


class TransformerFeedForward(nn.Module):
    """Two linear layers with an activation between (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: TransformerConfig, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(config.d_model, inner)
        self.down = nn.Linear(inner, config.d_model)
        self.activation = ACTIVATIONS[config.activation_function]
        self.dropout_prob = config.activation_dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """Return vectors of the shape of `hidden`, [tokens, hidden]."""
        inner = self.activation(self.up(hidden))
        return self.down(dropout(inner, self.dropout_prob, self.training))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; each output is added to its input and normalized."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        size, heads = config.d_model, config.encoder_attention_heads
        self.attention = SelfAttention(size, heads, config.attention_dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.feed_forward = TransformerFeedForward(config, config.encoder_ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout_prob = config.dropout

    def forward(self, hidden: Tensor, view: AttentionView) -> Tensor:
        """Return new vectors [tokens, hidden] of the tokens in `hidden`.

        Both may end in padding rows, since `fill_up` rounds the number of rows up. `view` says
        which tokens each token attends to, and computes attention.
        """
        attended = self.attention(hidden, view)
        hidden = self.attention_norm(hidden + dropout(attended, self.dropout_prob, self.training))
        fed = self.feed_forward(hidden)
        return self.feed_forward_norm(hidden + dropout(fed, self.dropout_prob, self.training))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        size, heads = config.d_model, config.decoder_attention_heads
        self.attention = SelfAttention(size, heads, config.attention_dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.source_attention = CrossAttention(size, heads, config.attention_dropout)
        self.source_attention_norm = nn.LayerNorm(size)
        self.feed_forward = TransformerFeedForward(config, config.decoder_ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.dropout_prob = config.dropout

    def forward(
        self,
        hidden: Tensor,
        view: AttentionView,
        source: KeysAndValues,
        source_view: AttentionView,
    ) -> Tensor:
        """Return new vectors [target tokens, hidden]; they may end in padding rows.

        `source` are the keys and values of the encoded sources, as `source_view` reads them.
        """
        prob, training = self.dropout_prob, self.training
        attended = self.attention(hidden, view)
        hidden = self.attention_norm(hidden + dropout(attended, prob, training))
        attended = self.source_attention(hidden, source, source_view)
        hidden = self.source_attention_norm(hidden + dropout(attended, prob, training))
        return self.feed_forward_norm(hidden + dropout(self.feed_forward(hidden), prob, training))


class Transformer(EncoderDecoder):
    """The encoder–decoder of the paper, with one embedding for source, target and output."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.start_id = config.decoder_start_token_id
        self.end_id = config.eos_token_id
        self.longest = config.max_position_embeddings
        self.word = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Added to the logits, and not trained. It is zero except in some published models. It is a
        # parameter, not a buffer, since training processes share only parameters.
        self.logit_bias = nn.Parameter(torch.zeros(1, config.vocab_size), requires_grad=False)
        self.apply(self._initialize)

    def _initialize(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):  # `_embed` multiplies its vectors to a variance of 1
            nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        if isinstance(module, SelfAttention):
            _initialize_parts(module.qkv, 3)
        if isinstance(module, CrossAttention):
            _initialize_parts(module.key_value, 2)

    def set_dropout(self, dropout: float) -> None:
        self.config = replace(self.config, dropout=dropout)
        for layer in (*self.encoder, *self.decoder):
            layer.dropout_prob = dropout

    def _embed(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        words = self.word(input_ids) * math.sqrt(self.config.d_model)
        sines = build_sines(self.config.max_position_embeddings, self.config.d_model, words.device)
        embedded = words + sines[position_ids].to(words.dtype)
        # `fill_up` appends rows of zeros on a CPU, so that matrix products have few shapes.
        return fill_up(dropout(embedded, self.config.dropout, self.training))

    def encode(self, source: TokenRow, step_indices: Sequence[int] = ()) -> Tensor:
        """Encode sources to vectors, [source tokens, hidden].

        Args:
            step_indices: the index of each source in the training step; empty outside of training.
        """
        # From here on, `dropout` draws the mask of each sequence from its own random stream.
        set_dropout_sequences(source.lengths, step_indices)
        hidden = self._embed(source.input_ids, source.position_ids)
        # Each token of a source (a query) sees all tokens of this source (the keys).
        view = PackedView(source.packed, source.packed)
        for layer in self.encoder:
            hidden = layer(hidden, view)
        return hidden[: len(source.input_ids)]

    def decode(self, batch: SourceTarget) -> Tensor:
        memory = fill_up(self.encode(batch.source, batch.step_indices))
        target = batch.target
        set_dropout_sequences(target.lengths, batch.step_indices)
        hidden = self._embed(target.input_ids, target.position_ids)
        view = PackedView(target.packed, target.packed, CAUSAL)
        source_view = PackedView(target.packed, batch.source.packed)
        for layer, source in zip(self.decoder, self.project_source(memory), strict=True):
            hidden = layer(hidden, view, source, source_view)
        return hidden[: len(target.input_ids)]

    def decode_new(
        self,
        input_ids: Tensor,
        lengths: tuple[int, ...],
        target: KeyValueCache,
        source: SourceCache,
    ) -> Tensor:
        """Decode new tokens of the targets, to vectors [new tokens, hidden].

        `lengths` counts the new tokens of each target. `target` has the keys and values of the
        earlier tokens; those of the new ones are added.
        """
        new = target.read(lengths)  # from here on, the cache counts the new tokens, too
        positions = torch.from_numpy(new.columns).to(input_ids.device)  # in the whole targets
        hidden = self._embed(input_ids, positions)
        source_view = source.view(lengths)
        layers = zip(self.decoder, target.views_for(len(self.decoder)), source.layers, strict=True)
        for layer, view, keys_and_values in layers:
            hidden = layer(hidden, view, keys_and_values, source_view)
        return hidden[: len(input_ids)]

    def compute_logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.word.weight, self.logit_bias[0].to(hidden.dtype))


def _initialize_parts(fused: nn.Linear, num_parts: int) -> None:
    """Initialize a layer that holds several matrices, such as Q, K and V, each by its own size."""
    for part in fused.weight.chunk(num_parts):
        nn.init.xavier_uniform_(part)


@lru_cache(maxsize=8)
def build_sines(num_positions: int, size: int, device: torch.device) -> Tensor:
    """Build the fixed position vectors (Vaswani et al. 2017, section 3.5), fp32 [positions, size].

    The first half of each vector holds sines, and the second half cosines of the same angles.
    """
    frequencies = np.power(10000.0, -np.arange(0, size, 2) / size)
    angles = np.arange(num_positions)[:, None] * frequencies
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    # Kept for later calls: a tensor made in inference mode could not be used in training.
    with torch.inference_mode(False):
        return torch.from_numpy(both.astype(np.float32)).to(device)
