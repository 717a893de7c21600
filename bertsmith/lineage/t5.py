"""T5 (Raffel et al. 2020): an encoder–decoder that treats every task as text to text.

It differs from the Transformer of 2017 in four points. RMSNorm, which has no mean and no bias,
comes before each part of a layer and once after each stack. Linear layers have no biases. Scores
are not divided by the square root of the head's width. There are no position vectors: a learned
number for each head and distance is added to the scores (`relative_bias.py`).

Version 1.0 has ReLU, and its output layer is the embedding, with outputs scaled by d^-0.5. Version
1.1 has a gated GELU and an output layer of its own.

T5 was trained with Adafactor, whose steps are proportional to the size of the weights. Our
optimizer is AdamW, which changes all weights by about the learning rate. So weights that are much
larger or smaller than others would learn too slowly or too fast: new embeddings are small here, and
the weights of queries have a factor (`T5Config.query_factor`). Without these, a small T5 predicts
nothing but token frequencies for hundreds of steps (benchmarks/lineage.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.errors import ConfigError
from bertsmith.lineage.config_checks import (
    check_ids,
    check_probabilities,
    check_sizes,
    check_small_numbers,
    check_upper_limit,
)
from bertsmith.lineage.encoder_decoder import EncoderDecoder, KeysAndValues
from bertsmith.lineage.relative_bias import RelativeBias
from bertsmith.lineage.source_target import SourceTarget, TokenRow
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import AttentionView
from bertsmith.model.attention_pattern import CAUSAL
from bertsmith.model.cached_view import KeyValueCache, SourceCache
from bertsmith.model.dropout import dropout, set_dropout_sequences
from bertsmith.model.packed_view import PackedView
from bertsmith.model.shape_buckets import fill_up
from bertsmith.system.bounds import check_choice

SIZES = (
    "vocab_size",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_decoder_layers",
    "num_heads",
    "relative_attention_max_distance",
)
"""Fields that are whole numbers above 0."""
EMBEDDING_STD = 0.05
"""Standard deviation of new embeddings. The vectors that attention and feed-forward layers add to
the embeddings are at first of about this size, too."""
FEED_FORWARDS = {"relu": ("relu", False), "gated-gelu": ("gelu_new", True)}
"""Maps the name of a feed-forward layer in config.json to its activation, and to whether there is a
gate."""


@dataclass(frozen=True)
class T5Config:
    """The config of a T5; every field has the name that transformers gives it in `t5`.

    Raises:
        ConfigError: a value has the wrong type, or is out of range.
    """

    vocab_size: int
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int = 6
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0
    tie_word_embeddings: bool = True
    """Whether the output layer has the weights of the embedding."""
    scale_decoder_outputs: bool = True
    """Whether outputs are multiplied by d_model^-0.5 before the output layer, as in version 1.0."""

    def __post_init__(self) -> None:
        check_sizes(self, SIZES)
        buckets = self.relative_attention_num_buckets
        if type(buckets) is not int or buckets < 4 or buckets % 4:
            raise ConfigError(
                f"relative_attention_num_buckets is {buckets!r}. It must be a multiple of 4."
            )
        check_upper_limit("relative_attention_num_buckets", buckets)
        if self.relative_attention_max_distance <= buckets // 2:
            raise ConfigError(
                f"relative_attention_max_distance is {self.relative_attention_max_distance}. It "
                f"must be above {buckets // 2}, half of the buckets."
            )
        check_probabilities(self, ("dropout_rate",))
        check_small_numbers(self, ("layer_norm_epsilon",))
        check_ids(self, ("pad_token_id", "eos_token_id", "decoder_start_token_id"), self.vocab_size)
        check_choice("feed_forward_proj", self.feed_forward_proj, FEED_FORWARDS)

    @property
    def inner_size(self) -> int:
        """The width of all heads together."""
        return self.num_heads * self.d_kv

    @property
    def query_factor(self) -> float:
        """The power of two next to the square root of `d_kv`.

        Our model has the query weights of its folder times this factor. T5 does not scale scores,
        so the query weights in a folder are smaller than other weights, and AdamW would change them
        by too much.
        """
        return 2.0 ** round(math.log2(self.d_kv) / 2)

    @property
    def query_scale(self) -> float:
        """The factor of queries, with which scores are not scaled, as in T5.

        It undoes two factors: an `AttentionView` divides scores by the square root of `d_kv`, and
        the query weights contain `query_factor`.
        """
        return math.sqrt(self.d_kv) / self.query_factor


class RootMeanSquareNorm(nn.Module):
    """Divide a vector by the root of its mean square (Zhang & Sennrich 2019)."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.epsilon = config.layer_norm_epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        """Return vectors of the shape and dtype of `hidden`; the mean is computed in fp32."""
        squares = hidden.float().square().mean(-1, keepdim=True)
        normed = hidden * torch.rsqrt(squares + self.epsilon)
        return self.weight * normed.to(self.weight.dtype)


class T5SelfAttention(nn.Module):
    """Self-attention without biases, and with scores that are not scaled."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout_prob = config.dropout_rate
        self.scale = config.query_scale
        self.qkv = nn.Linear(config.d_model, 3 * config.inner_size, bias=False)
        self.output = nn.Linear(config.inner_size, config.d_model, bias=False)

    def forward(self, hidden: Tensor, view: AttentionView) -> Tensor:
        """Return new vectors [tokens, hidden] of the tokens in `hidden`."""
        qkv = self.qkv(hidden).view(len(hidden), 3, self.num_heads, -1)
        query, key, value = qkv.unbind(1)
        dropout_prob = self.dropout_prob if self.training else 0.0
        return self.output(view.attend(query * self.scale, key, value, dropout_prob))


class T5SourceAttention(nn.Module):
    """Attention to the encoded source, without biases, and with scores that are not scaled."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout_prob = config.dropout_rate
        self.scale = config.query_scale
        self.query = nn.Linear(config.d_model, config.inner_size, bias=False)
        self.key_value = nn.Linear(config.d_model, 2 * config.inner_size, bias=False)
        self.output = nn.Linear(config.inner_size, config.d_model, bias=False)

    def project(self, source: Tensor) -> KeysAndValues:
        """Return keys and values of `source`, both [source tokens, heads, head_size]."""
        pairs = self.key_value(source).view(len(source), 2, self.num_heads, -1)
        return pairs[:, 0], pairs[:, 1]

    def forward(
        self, hidden: Tensor, keys_and_values: KeysAndValues, view: AttentionView
    ) -> Tensor:
        """Return new vectors [tokens, hidden] of the tokens in `hidden`."""
        query = self.query(hidden).view(len(hidden), self.num_heads, -1) * self.scale
        dropout_prob = self.dropout_prob if self.training else 0.0
        return self.output(view.attend(query, *keys_and_values, dropout_prob))


class T5FeedForward(nn.Module):
    """Two linear layers with ReLU between, or with a gate (Shazeer 2020)."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        name, self.is_gated = FEED_FORWARDS[config.feed_forward_proj]
        self.activation = ACTIVATIONS[name]
        if self.is_gated:
            self.up_gate = nn.Linear(config.d_model, 2 * config.d_ff, bias=False)
        else:
            self.up = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout_prob = config.dropout_rate

    def forward(self, hidden: Tensor) -> Tensor:
        """Return vectors of the shape of `hidden`, [tokens, hidden]."""
        if self.is_gated:
            inner, gate = self.up_gate(hidden).chunk(2, dim=-1)
            inner = self.activation(inner) * gate
        else:
            inner = self.activation(self.up(hidden))
        return self.down(dropout(inner, self.dropout_prob, self.training))


class T5EncoderLayer(nn.Module):
    """Self-attention, then feed-forward.

    Each of the two reads normalized vectors, and its output is added to the vectors before
    normalization.
    """

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention_norm = RootMeanSquareNorm(config)
        self.attention = T5SelfAttention(config)
        self.feed_forward_norm = RootMeanSquareNorm(config)
        self.feed_forward = T5FeedForward(config)
        self.dropout_prob = config.dropout_rate

    def forward(self, hidden: Tensor, view: AttentionView) -> Tensor:
        """Return new vectors [tokens, hidden] of the tokens in `hidden`.

        Both may end in padding rows, since `fill_up` rounds the number of rows up. `view` says
        which tokens each token attends to, and computes attention.
        """
        attended = self.attention(self.attention_norm(hidden), view)
        hidden = hidden + dropout(attended, self.dropout_prob, self.training)
        fed = self.feed_forward(self.feed_forward_norm(hidden))
        return hidden + dropout(fed, self.dropout_prob, self.training)


class T5DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention_norm = RootMeanSquareNorm(config)
        self.attention = T5SelfAttention(config)
        self.source_attention_norm = RootMeanSquareNorm(config)
        self.source_attention = T5SourceAttention(config)
        self.feed_forward_norm = RootMeanSquareNorm(config)
        self.feed_forward = T5FeedForward(config)
        self.dropout_prob = config.dropout_rate

    def forward(
        self,
        hidden: Tensor,
        view: AttentionView,
        source: KeysAndValues,
        source_view: AttentionView,
    ) -> Tensor:
        """Return new vectors [target tokens, hidden]; they may end in padding rows."""
        prob, training = self.dropout_prob, self.training
        attended = self.attention(self.attention_norm(hidden), view)
        hidden = hidden + dropout(attended, prob, training)
        attended = self.source_attention(self.source_attention_norm(hidden), source, source_view)
        hidden = hidden + dropout(attended, prob, training)
        fed = self.feed_forward(self.feed_forward_norm(hidden))
        return hidden + dropout(fed, prob, training)


class T5(EncoderDecoder):
    """The network of a T5, of version 1.0 or 1.1."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.start_id = config.decoder_start_token_id
        self.end_id = config.eos_token_id
        self.longest = None
        self.word = nn.Embedding(config.vocab_size, config.d_model)
        buckets = config.relative_attention_num_buckets
        self.encoder_bias = nn.Embedding(buckets, config.num_heads)
        self.decoder_bias = nn.Embedding(buckets, config.num_heads)
        self.encoder = nn.ModuleList(T5EncoderLayer(config) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(
            T5DecoderLayer(config) for _ in range(config.num_decoder_layers)
        )
        self.encoder_norm = RootMeanSquareNorm(config)
        self.decoder_norm = RootMeanSquareNorm(config)
        if not config.tie_word_embeddings:
            self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self._initialize()

    def _initialize(self) -> None:
        """Draw the weights.

        In the released code the embeddings have a standard deviation of 1, here `EMBEDDING_STD`.
        Matrices whose output is added to the embeddings are smaller by the same factor. All other
        matrices inside layers are drawn as in the released code.
        """
        size = self.config.d_model
        query_std = (size * self.config.d_kv) ** -0.5 * self.config.query_factor
        nn.init.normal_(self.word.weight, std=EMBEDDING_STD)
        if self.config.scale_decoder_outputs:  # the norm's weights undo the scale
            nn.init.constant_(self.decoder_norm.weight, math.sqrt(size))
        for bias in (self.encoder_bias, self.decoder_bias):
            nn.init.normal_(bias.weight, std=size**-0.5)
        for module in self.modules():
            if isinstance(module, T5SelfAttention):
                inner = self.config.inner_size
                nn.init.normal_(module.qkv.weight[:inner], std=query_std)
                nn.init.normal_(module.qkv.weight[inner:], std=size**-0.5)
            if isinstance(module, T5SourceAttention):
                nn.init.normal_(module.query.weight, std=query_std)
                nn.init.normal_(module.key_value.weight, std=size**-0.5)
            if isinstance(module, T5SelfAttention | T5SourceAttention):
                std = EMBEDDING_STD * self.config.inner_size**-0.5
                nn.init.normal_(module.output.weight, std=std)
            if isinstance(module, T5FeedForward):
                up = module.up_gate if module.is_gated else module.up
                nn.init.normal_(up.weight, std=size**-0.5)
                nn.init.normal_(module.down.weight, std=EMBEDDING_STD * self.config.d_ff**-0.5)
        if not self.config.tie_word_embeddings:
            nn.init.normal_(self.output.weight, std=EMBEDDING_STD)

    def set_dropout(self, dropout: float) -> None:
        self.config = replace(self.config, dropout_rate=dropout)
        parts = (T5EncoderLayer, T5DecoderLayer, T5FeedForward, T5SelfAttention, T5SourceAttention)
        for module in self.modules():
            if isinstance(module, parts):
                module.dropout_prob = dropout

    def _relative_bias(self, embedding: nn.Embedding, *, bidirectional: bool) -> RelativeBias:
        max_distance = self.config.relative_attention_max_distance
        return RelativeBias(embedding.weight, max_distance, bidirectional=bidirectional)

    def _embed(self, input_ids: Tensor) -> Tensor:
        # `fill_up` appends rows of zeros on a CPU, so that matrix products have few shapes.
        return fill_up(dropout(self.word(input_ids), self.config.dropout_rate, self.training))

    def _finish(self, hidden: Tensor, norm: nn.Module, num_tokens: int) -> Tensor:
        """Apply the norm and dropout after a stack, and remove padding rows."""
        hidden = norm(hidden)
        # The rows after the tokens are those that `fill_up` has appended.
        return dropout(hidden, self.config.dropout_rate, self.training)[:num_tokens]

    def encode(self, source: TokenRow, step_indices: Sequence[int] = ()) -> Tensor:
        """Encode sources to vectors, [source tokens, hidden].

        Args:
            step_indices: the index of each source in the training step; empty outside of training.
        """
        # From here on, `dropout` draws the mask of each sequence from its own random stream.
        set_dropout_sequences(source.lengths, step_indices)
        hidden = self._embed(source.input_ids)
        bias = self._relative_bias(self.encoder_bias, bidirectional=True)
        # Each token of a source (a query) sees all tokens of this source (the keys).
        view = PackedView(source.packed, source.packed, bias=bias, by_length=source.by_length)
        for layer in self.encoder:
            hidden = layer(hidden, view)
        return self._finish(hidden, self.encoder_norm, len(source.input_ids))

    def decode(self, batch: SourceTarget) -> Tensor:
        memory = self.project_source(fill_up(self.encode(batch.source, batch.step_indices)))
        return self.decode_from(memory, batch.source, batch.target, batch.step_indices)

    def decode_from(
        self,
        memory: Sequence[KeysAndValues],
        source: TokenRow,
        target: TokenRow,
        step_indices: Sequence[int] = (),
    ) -> Tensor:
        """Decode targets to vectors [target tokens, hidden].

        Args:
            memory: each layer's keys and values of `source`, from `project_source`.
            step_indices: the index of each target in the training step; empty outside of training.
        """
        set_dropout_sequences(target.lengths, step_indices)
        hidden = self._embed(target.input_ids)
        bias = self._relative_bias(self.decoder_bias, bidirectional=False)
        view = PackedView(
            target.packed, target.packed, CAUSAL, bias=bias, by_length=source.by_length
        )
        source_view = PackedView(target.packed, source.packed, by_length=source.by_length)
        for layer, keys_and_values in zip(self.decoder, memory, strict=True):
            hidden = layer(hidden, view, keys_and_values, source_view)
        return self._finish(hidden, self.decoder_norm, len(target.input_ids))

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
        target.read(lengths)  # from here on, the cache counts the new tokens, too
        # The views of the cache add this bias to the scores. Each pass has its own object, since a
        # bias keeps the values of the pass's blocks.
        target.bias = self._relative_bias(self.decoder_bias, bidirectional=False)
        hidden = self._embed(input_ids)
        source_view = source.view(lengths)
        layers = zip(self.decoder, target.views_for(len(self.decoder)), source.layers, strict=True)
        for layer, view, keys_and_values in layers:
            hidden = layer(hidden, view, keys_and_values, source_view)
        return self._finish(hidden, self.decoder_norm, len(input_ids))

    def compute_logits(self, hidden: Tensor) -> Tensor:
        if self.config.scale_decoder_outputs:
            hidden = hidden * self.config.d_model**-0.5
        is_tied = self.config.tie_word_embeddings
        return F.linear(hidden, self.word.weight if is_tied else self.output.weight)
