"""The modules that an encoder is made of: embeddings, layers and pooler.

They compute on a packed row: the tokens of all sequences of a batch, one after another.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, Queries, send
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import RecordWeights, SelfAttention
from bertsmith.model.attention_pattern import FULL, AttentionPattern
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import dropout, one_row_per_sequence
from bertsmith.model.packed_row import PickedTokens
from bertsmith.model.padding import number_columns
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.shape_buckets import fill_up


class Embeddings(nn.Module):
    """The sum of a token's word, position and segment embeddings (Devlin et al. 2019, figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.word = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position: nn.Embedding | None = None
        if config.has_position_embedding:
            self.position = nn.Embedding(config.max_position_embeddings, size)
        num_types = config.type_vocab_size
        self.token_type = nn.Embedding(num_types, size) if num_types else None
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """Return `[tokens, hidden]`, in the dtype of the weights.

        `words`, `[tokens, embedding size]`, replace the word embeddings of the batch's ids.
        """
        summed = self.word(batch.input_ids) if words is None else words
        if self.position is not None:
            summed = summed + self.look_up_positions(self.position, batch)
        if self.token_type is not None:
            types = self.token_type
            # A model with a single type does not tell segments apart.
            summed = summed + (
                types.weight if len(types.weight) == 1 else types(batch.token_type_ids)
            )
        return dropout(self.norm(summed), self.dropout_prob, self.training)

    def look_up_positions(self, position: nn.Embedding, batch: Batch) -> Tensor:
        """Return the position embedding of each token, `[tokens, embedding size]`."""
        return position(batch.position_ids)

    def number_columns(self, input_ids: Tensor) -> Tensor:
        """Return the position of each column of padded ids, int64 `[batch, length]`, from 0."""
        return number_columns(input_ids)


class FactorizedEmbeddings(Embeddings):
    """Embeddings at `embedding_size`, then a dense layer (Lan et al. 2020, section 3.1).

    Context-free word vectors need fewer dimensions than contextual ones, and word embeddings are
    most of a small model's weights.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """Return [tokens, hidden], which may end in padding rows; see `fill_up`.

        `words` are [tokens, embedding size], as in `Embeddings`.
        """
        return self.project(fill_up(super().forward(batch, words)))


class FeedForward(nn.Module):
    """Two projections with the activation between (Vaswani et al. 2017, section 3.3).

    Each token is transformed by itself: [tokens, hidden] to the same shape, in the weights' dtype.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(self.activation(self.up(hidden)))


class TransformerLayer(nn.Module):
    """Self-attention, then feed-forward; each is added to its input and normalized.

    It is the encoder layer of Vaswani et al. 2017, section 3.1. Vectors have the weights' dtype.
    """

    pattern: AttentionPattern = FULL
    """Keys that each query of the layer sees."""

    # `number` is that of the layer, from 0, which subclasses of other families read.
    def __init__(self, config: BertConfig, number: int = 0) -> None:
        super().__init__()
        self.attention = SelfAttention(
            config.hidden_size, config.num_attention_heads, config.attention_probs_dropout_prob
        )
        self.attention_norm: nn.Module = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward: FeedForward | Any = FeedForward(config)  # a family may have its own
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None = None,
        picked: PickedTokens | None = None,
    ) -> Tensor:
        """Return the layer's output, `[tokens, hidden]`.

        The output may end in padding rows; see `fill_up`.

        Args:
            layout: the sequences of the packed row, and how their tokens attend to one another.
            record_weights: receives the attention weights and returns those to use.
            picked: one token of each sequence, if only these are to be computed; the output is then
                `[sequences, hidden]`.
        """
        if picked is None:
            return self.combine(hidden, self.attend(hidden, layout, record_weights, picked))
        # Dropout tells by a tensor's number of rows whether a row is a token or a sequence. With
        # padding rows, as on a CPU, both numbers may be the same, such as 16 for 10 tokens of 5
        # sequences. So it is told here.
        with one_row_per_sequence():
            attended = self.attend(hidden, layout, record_weights, picked)
            return self.combine(fill_up(hidden.index_select(0, picked.index)), attended)

    def attend(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None,
        picked: PickedTokens | None,
    ) -> Tensor:
        """Compute attention: `[tokens, hidden]`, or with `picked` `[sequences, hidden]`.

        The arguments are those of `forward`; the result may end in padding rows, too.
        """
        return self.attention(hidden, layout.view(self.pattern, picked), record_weights)

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Apply residual connections, LayerNorm and feed-forward to two tensors `[rows, hidden]`.

        `hidden` is the layer's input, `attended` the output of attention, and the result has their
        shape. There is a row for each token, or for each sequence if only one token of each is
        computed; padding rows may follow.
        """
        hidden = self.attention_norm(hidden + self.drop(attended))
        return self.feed_forward_norm(hidden + self.drop(self.feed_forward(hidden)))

    def drop(self, x: Tensor) -> Tensor:
        """Apply residual dropout (Vaswani et al. 2017, section 5.4) to `[rows, hidden]`."""
        return dropout(x, self.dropout_prob, self.training)


class LayerList(nn.ModuleList):
    """The layers of an encoder, from the bottom.

    It is a `ModuleList` that tells mypy what its items are.
    """

    if TYPE_CHECKING:

        def __getitem__(self, number: int) -> TransformerLayer: ...  # type: ignore[override]
        def __iter__(self) -> Iterator[TransformerLayer]: ...


class Pooling(nn.Module):
    """One vector per sequence: that of its first or last token, or the mean over its tokens."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.pooling: str = config.pooling

    @property
    def queries(self) -> Queries:
        """The tokens whose vectors `read` uses."""
        if self.pooling == "first_token":
            return "first"
        return "last" if self.pooling == "last_token" else "all"

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Pool `[tokens, hidden]` to `[sequences, hidden]`, in the batch's order."""
        return self.project(self.read(hidden, batch))

    def read(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Select or average the vectors of tokens, `[tokens, hidden]` to `[sequences, hidden]`."""
        if self.queries == "all":
            return mean_over_sequences(hidden, batch)
        picked = batch.first_tokens if self.queries == "first" else batch.last_tokens
        return hidden.index_select(0, picked)

    def project(self, read: Tensor) -> Tensor:
        """Transform the vectors that `read` returned, [sequences, hidden], to the same shape.

        Here they stay as they are; `Pooler` applies a dense layer.
        """
        return read


class Pooler(Pooling):
    """A dense layer with tanh on the vector that `pooling` selects."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def project(self, read: Tensor) -> Tensor:
        return torch.tanh(self.dense(read))


def mean_over_sequences(hidden: Tensor, batch: Batch) -> Tensor:
    """Average each sequence's tokens, `[tokens, hidden]` to `[sequences, hidden]`.

    The sum is in fp32, the result in the dtype of `hidden`, which has no padding rows here:
    `BertModel.encode` cuts them off.
    """
    lengths = send(torch.tensor(batch.lengths), hidden.device)
    # Without `output_size` torch would wait for the GPU to learn the length of the result.
    sequence_of_token = torch.arange(batch.num_sequences, device=hidden.device).repeat_interleave(
        lengths, output_size=batch.num_tokens
    )
    sums = hidden.new_zeros(batch.num_sequences, hidden.shape[-1], dtype=torch.float32)
    sums = sums.index_add(0, sequence_of_token, hidden.float())
    return (sums / lengths[:, None]).to(hidden.dtype)
