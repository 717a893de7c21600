"""GPT-2 (Radford et al. 2019): token ids in, the logits of each next token out.

It is a stack of decoder layers (Vaswani et al. 2017) without attention to a source: each token sees
those before it and itself. LayerNorm comes before attention, before feed-forward, and after the
last layer. The output layer has the weights of the word embedding. Inside, a batch is one packed
row of real tokens, as in BERT.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.errors import ConfigError, InputError
from bertsmith.lineage.config_checks import (
    check_optional_ids,
    check_probabilities,
    check_sizes,
    check_small_numbers,
)
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import AttentionView, SelfAttention
from bertsmith.model.attention_pattern import CAUSAL
from bertsmith.model.cached_view import KeyValueCache
from bertsmith.model.dropout import dropout, set_dropout_sequences
from bertsmith.model.padding import PaddedBatch, check_tensor, number_columns
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.bounds import check_choice

SIZES = ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions")
"""Fields that are whole numbers above 0."""


@dataclass(frozen=True)
class GptConfig:
    """The config of a GPT; every field has the name that transformers gives it in `gpt2`.

    Raises:
        ConfigError: a value has the wrong type, is out of range, or contradicts another field.
    """

    vocab_size: int
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_positions: int = 1024
    n_inner: int | None = None
    """Width of the feed-forward layer; None for four times `n_embd`."""
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    """Not used here, but saved for other programs. `attention_mask` says which tokens are padding,
    so this id may be the end token's."""

    def __post_init__(self) -> None:
        check_sizes(self, SIZES if self.n_inner is None else (*SIZES, "n_inner"))
        check_probabilities(self, ("resid_pdrop", "embd_pdrop", "attn_pdrop"))
        check_small_numbers(self, ("layer_norm_epsilon", "initializer_range"))
        check_optional_ids(self, ("bos_token_id", "eos_token_id", "pad_token_id"))
        if self.n_embd % self.n_head:
            raise ConfigError(
                f"n_embd is {self.n_embd} with n_head {self.n_head}. Choose a multiple of "
                f"{self.n_head}."
            )
        check_choice("activation_function", self.activation_function, ACTIVATIONS)


class GptLayer(nn.Module):
    """Causal self-attention, then feed-forward.

    Each of the two reads normalized vectors, and its output is added to the vectors before
    normalization.
    """

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        size, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        self.attention_norm = nn.LayerNorm(size, eps=config.layer_norm_epsilon)
        self.attention = SelfAttention(size, config.n_head, config.attn_pdrop)
        self.feed_forward_norm = nn.LayerNorm(size, eps=config.layer_norm_epsilon)
        self.up = nn.Linear(size, inner)
        self.down = nn.Linear(inner, size)
        self.activation = ACTIVATIONS[config.activation_function]
        self.dropout_prob = config.resid_pdrop

    def forward(self, hidden: Tensor, view: AttentionView) -> Tensor:
        """Return new vectors `[tokens, hidden]`.

        Args:
            hidden: `[tokens, hidden]`; it may end in padding rows, since `fill_up` rounds the
                number of rows up, so that few shapes occur.
            view: says which tokens each token attends to, and computes attention.
        """
        attended = self.attention(self.attention_norm(hidden), view)
        hidden = hidden + dropout(attended, self.dropout_prob, self.training)
        inner = self.activation(self.up(self.feed_forward_norm(hidden)))
        return hidden + dropout(self.down(inner), self.dropout_prob, self.training)


@dataclass(frozen=True)
class GptOutput:
    """Outputs of `Gpt.forward`.

    `logits` `[batch, length, vocabulary]` are zero at padding; `loss` is a scalar, or None without
    labels.
    """

    logits: Tensor
    loss: Tensor | None = None


class Gpt(TrainableModel):
    """A language model of the shape of GPT-2."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.word = nn.Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.n_positions, config.n_embd)
        self.layers = nn.ModuleList(GptLayer(config) for _ in range(config.n_layer))
        self.final_norm = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.apply(self.initialize)

    def initialize(self, module: nn.Module) -> None:
        """Draw a module's weights.

        Matrices whose output is added to the residual stream get a smaller standard deviation
        (Radford et al. 2019, section 2.3).
        """
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, GptLayer):
            for linear in (module.attention.output, module.down):
                nn.init.normal_(linear.weight, std=std / math.sqrt(2 * self.config.n_layer))

    def encode(self, batch: Batch) -> Tensor:
        """Encode a packed batch to the last layer's vectors, `[tokens, hidden]`."""
        # From here on, `dropout` draws the mask of each sequence from its own random stream.
        set_dropout_sequences(batch.lengths, batch.step_indices)
        # All layers share one view, in which each token sees those before it and itself. `columns`
        # are the tokens' columns in the caller's padded rows, if there is padding between tokens.
        layout = RowLayout(batch.lengths, batch.input_ids.device, columns=batch.columns)
        views = [layout.view(CAUSAL)] * len(self.layers)
        return self._encode(batch.input_ids, batch.position_ids, views)

    def encode_new(
        self, input_ids: Tensor, lengths: tuple[int, ...], cache: KeyValueCache
    ) -> Tensor:
        """Encode tokens that follow the tokens of `cache`, to `[tokens, hidden]`.

        Their keys and values are added to the cache.

        Args:
            input_ids: int64 `[tokens]`, sequence by sequence in the order of the cache.
            lengths: the number of new tokens of each sequence.
            cache: the keys and values of all earlier tokens, for each layer.
        """
        new = cache.read(lengths)  # notes the new tokens, whose keys and values its views then add
        positions = torch.from_numpy(new.columns).to(input_ids.device)  # in the whole sequences
        return self._encode(input_ids, positions, cache.views_for(len(self.layers)))

    def _encode(
        self, input_ids: Tensor, position_ids: Tensor, views: Sequence[AttentionView]
    ) -> Tensor:
        embedded = self.word(input_ids) + self.position(position_ids)
        hidden = fill_up(dropout(embedded, self.config.embd_pdrop, self.training))
        for layer, view in zip(self.layers, views, strict=True):
            hidden = layer(hidden, view)
        return self.final_norm(hidden)[: len(input_ids)]

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return for each token the logits of the token that follows it, `[tokens, vocabulary]`."""
        return F.linear(hidden, self.word.weight)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> GptOutput:
        """Run the model on padded integer tensors `[batch, length]`.

        `attention_mask` is 1 at real tokens and 0 at padding. A token's position is its column, as
        in transformers. `labels` are usually `input_ids`: the model shifts them, so that each token
        predicts the label in the next column. A label is ignored if it is -100, or if the column
        before it is padding. The loss is the mean cross entropy, in fp32.

        Raises:
            InputError: shapes, types or values that the model cannot read; the message names row
                and column.
        """
        padded = PaddedBatch.pack(
            input_ids,
            attention_mask,
            token_type_ids=None,  # GPT has no segments
            max_length=self.config.n_positions,
            number_tokens=number_columns,
        )
        padded.check_range("input_ids", padded.batch.input_ids, self.config.vocab_size)
        logits = padded.unpack(self.compute_logits(self.encode(padded.batch)))
        loss = None
        if labels is not None:
            # `padded.cells` has a number for each real token; the padding becomes false.
            is_real = padded.unpack(torch.ones_like(padded.cells, dtype=torch.bool))
            targets = self._check_labels(labels, input_ids)[:, 1:]
            targets = targets.masked_fill(~is_real[:, :-1], IGNORE_INDEX).flatten()
            predicted = logits[:, :-1].flatten(0, 1).float()
            loss = F.cross_entropy(predicted, targets, ignore_index=IGNORE_INDEX)
        return GptOutput(logits, loss)

    def _check_labels(self, labels: Tensor, input_ids: Tensor) -> Tensor:
        check_tensor("labels", labels, input_ids.shape)
        labels = labels.long()
        wrong = ((labels < 0) & (labels != IGNORE_INDEX)) | (labels >= self.config.vocab_size)
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            raise InputError(
                f"labels, row {row}, column {column}: found {int(labels[row, column])}. This model "
                f"takes 0 to {self.config.vocab_size - 1}, and {IGNORE_INDEX} is ignored."
            )
        return labels
