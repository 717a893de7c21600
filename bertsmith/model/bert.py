"""BERT (Devlin et al. 2019): token ids in, one vector per token and one per sequence out.

The order of things is that of the paper and the released code: three embeddings summed, then
layers of self-attention and feed-forward with GELU, each followed by a residual connection and
LayerNorm ("post-LN"). Inside, a batch is one packed row of real tokens, [tokens, hidden], so
nothing is ever computed for padding; padded tensors exist only in `BertModel.forward`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, send
from bertsmith.errors import ConfigError, InputError, check_choice
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.attention import RecordWeights, SelfAttention
from bertsmith.model.blocks import Layout
from bertsmith.model.dropout import dropout
from bertsmith.model.family import Family, architectures
from bertsmith.model.heads import BERT_HEADS, PAIR_HEADS, TASK_HEAD_NAMES, TASK_HEADS
from bertsmith.model.load_report import LoadReport
from bertsmith.model.padding import (
    PaddedBatch,
    check_is_tensor,
    check_tensor,
    ids_in_place,
    number_columns,
)
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.trainable import ParameterSpec, TrainableModel
from bertsmith.system.bounds import check_largest

Item = TypeVar("Item")

PRESETS = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 128},
    "mini": {"num_hidden_layers": 4, "hidden_size": 256},
    "small": {"num_hidden_layers": 4, "hidden_size": 512},
    "medium": {"num_hidden_layers": 8, "hidden_size": 512},
    "base": {"num_hidden_layers": 12, "hidden_size": 768},
    "large": {"num_hidden_layers": 24, "hidden_size": 1024},
}
"""The released sizes; heads are 64 wide and the feed-forward layer is 4 times the hidden size."""

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
"""Fields that are whole numbers above 0."""


@dataclass(frozen=True)
class BertConfig:
    """The shape of a model; every field has Hugging Face's name, except `pooling`.

    The config of another family inherits from it and says what it builds otherwise.
    """

    model_type: ClassVar[str] = "bert"
    sizes: ClassVar[tuple[str, ...]] = SIZES
    has_pooler: ClassVar[bool] = True
    """Whether a model without heads has a pooler."""
    first_token_heads: ClassVar[tuple[str, ...]] = ()
    """Heads that read the first token's vector as it leaves the encoder, not the pooler's."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    pooling: Literal["first_token", "mean"] = "first_token"
    """What the pooler reads: the vector of [CLS], or the mean over a sequence's tokens."""
    pruned_heads: Mapping[int, list[int]] = field(default_factory=dict, hash=False)
    """Heads that were taken out, by the number of their layer. `num_attention_heads` counts them
    still, so that every head keeps its number and its size."""

    def __post_init__(self) -> None:
        """Refuse values that no model can have."""
        for name in self.sizes:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}. It must be a whole number above 0.")
            check_largest(name, value)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value < 1:
                raise ConfigError(f"{name} is {value!r}. It must be at least 0 and below 1.")
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1:
                raise ConfigError(f"{name} is {value!r}. It must be above 0 and below 1.")
        if type(self.pad_token_id) is not int or not 0 <= self.pad_token_id < self.vocab_size:
            raise ConfigError(
                f"pad_token_id is {self.pad_token_id!r}. It must be 0 to {self.vocab_size - 1}."
            )
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size is {self.hidden_size} with {self.num_attention_heads} attention "
                "heads. Choose a hidden_size that num_attention_heads divides."
            )
        check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        check_choice("pooling", self.pooling, ("first_token", "mean"))
        if self.pooling == "mean" and self.first_token_heads:
            raise ConfigError(
                f"pooling is 'mean'. Models of the family {self.model_type} classify by the first "
                "token's vector: leave it at 'first_token'."
            )
        if self.max_length < 1:
            raise ConfigError(
                f"max_position_embeddings is {self.max_position_embeddings}, and a text begins at "
                f"position {self.first_position}. It must be more."
            )
        for layer in self.pruned_heads:
            self.check_pruned(layer)

    def check_pruned(self, layer: int) -> None:
        """Refuse pruned heads that a layer has not, and those that leave it none."""
        heads, total = self.pruned_heads[layer], self.num_attention_heads
        known = layer in range(self.num_hidden_layers) and set(heads) <= set(range(total))
        if not known or len(set(heads)) != len(heads):
            raise ConfigError(
                f"pruned_heads: found {sorted(heads)} in layer {layer}; allowed are heads 0 to "
                f"{total - 1}, each once, in layers 0 to {self.num_hidden_layers - 1}."
            )
        if len(heads) == total:
            raise ConfigError(
                f"pruned_heads: found all {total} heads of layer {layer}. Leave each layer one."
            )

    @property
    def head_size(self) -> int:
        """The width of an attention head."""
        return self.hidden_size // self.num_attention_heads

    def heads_of(self, layer: int) -> list[int]:
        """The heads that a layer has, by their numbers before any was pruned."""
        pruned = self.pruned_heads.get(layer, ())
        return [head for head in range(self.num_attention_heads) if head not in pruned]

    @classmethod
    def from_preset(cls, name: str, vocab_size: int, **changes: Any) -> Self:
        """One of the released sizes, with any field replaced.

        >>> BertConfig.from_preset("mini", vocab_size=30522).num_attention_heads
        4
        """
        check_choice("preset", name, PRESETS)
        return cls(**{"vocab_size": vocab_size, **cls.preset_sizes(name), **changes})

    @classmethod
    def preset_sizes(cls, name: str) -> dict[str, Any]:
        """The fields that a preset decides."""
        hidden_size = PRESETS[name]["hidden_size"]
        return {
            **PRESETS[name],
            "num_attention_heads": hidden_size // 64,
            "intermediate_size": 4 * hidden_size,
        }

    @property
    def embedding_size(self) -> int:
        """The width of word, position and segment embeddings."""
        return self.hidden_size

    @property
    def first_position(self) -> int:
        """The row of the position embedding that a text's first token has."""
        return 0

    @property
    def max_length(self) -> int:
        """The longest text, in tokens, that the model can read."""
        return self.max_position_embeddings - self.first_position

    @property
    def num_layers(self) -> int:
        """Number of layers that a token goes through."""
        return self.num_hidden_layers

    @property
    def shared_parts(self) -> Mapping[str, int]:
        """Parts that several layers have in common: what the names of their parameters begin with,
        and the last layer that has them."""
        return {}

    def with_layers(self, keep: Sequence[int], **changes: Any) -> Self:
        """The config of a model that has only these of the layers, with other fields replaced."""
        pruned = {
            place: self.pruned_heads[number]
            for place, number in enumerate(keep)
            if number in self.pruned_heads
        }
        return replace(self, num_hidden_layers=len(keep), pruned_heads=pruned, **changes)

    @classmethod
    def token_ids(cls, pad: int, first: int, last: int) -> dict[str, Any]:
        """The fields that hold ids: of padding, and of a row's first and last token."""
        ids = {"pad_token_id": pad, "bos_token_id": first, "eos_token_id": last}
        known = {field.name for field in fields(cls)}
        return {name: number for name, number in ids.items() if name in known}

    def stored_layer(self, number: int) -> str:
        """Return the number of a layer in Hugging Face's names of its weights."""
        return str(number)

    def build_embeddings(self) -> "Embeddings":
        """Build the module that embeds a batch."""
        return Embeddings(self)

    def build_layers(self) -> list["TransformerLayer"]:
        """The layers, from the bottom."""
        return [TransformerLayer(self, number) for number in range(self.num_layers)]


TOKEN_HEADS = ("masked_lm", "tag", "answer", "replaced_token")
"""Heads that read every token's vector; the others read one vector of a sequence."""


@dataclass(frozen=True)
class ModelOutput:
    """What `BertModel.forward` gives, padded as its input was; None where absent.

    Shapes: `last_hidden_state` and each of `hidden_states` (embeddings first, then every
    layer) [batch, length, hidden]; each of `attentions` [batch, heads, length, length];
    `pooler_output` [batch, hidden]; `logits` [batch, length, vocabulary] from a masked-LM
    head, [batch, labels] from a head that reads the pooler, [batch, length, outputs] from one
    that reads every token, [batch, length] from "replaced_token"; `next_sentence_logits` and
    `sentence_order_logits` [batch, 2].
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    logits: Tensor | None = None
    next_sentence_logits: Tensor | None = None
    sentence_order_logits: Tensor | None = None


@dataclass
class OutputRecorder:
    """What a reader of the model asked to see on the way; None where not asked for.

    Padded where a `border` is given, without which attention cannot be seen. The model goes on
    with what is read back from it, so that gradients by it are those by the model's own vectors.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    border: PaddedBatch | None = None

    def record(self, hidden: Tensor, num_tokens: int) -> Tensor:
        """Keep the vectors that enter the first layer or leave a layer, if asked for.

        Returns:
            What to go on with, [tokens, hidden], filled up; `hidden` itself if nothing is kept.
        """
        if self.hidden_states is None:
            return hidden
        hidden = hidden[:num_tokens]
        shown = hidden if self.border is None else self.border.unpack(hidden)
        self.hidden_states.append(shown)
        return fill_up(hidden if self.border is None else self.border.repack(shown))

    def record_weights(self, blocks: Sequence[Tensor]) -> list[Tensor]:
        """Keep a layer's attention weights, in the form of `PaddedBatch.unpack_attention`."""
        assert self.attentions is not None
        assert self.border is not None
        self.attentions.append(self.border.unpack_attention(blocks))
        return self.border.repack_attention(self.attentions[-1], blocks)


class Embeddings(nn.Module):
    """The sum of a token's word, position and segment embeddings (paper, figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.word = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position = nn.Embedding(config.max_position_embeddings, size)
        num_types = config.type_vocab_size
        self.token_type = nn.Embedding(num_types, size) if num_types else None
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """[tokens, hidden]; with `words` [tokens, size] in place of the embeddings of its ids."""
        summed = self.word(batch.input_ids) if words is None else words
        summed = summed + self.look_up_positions(batch)
        if self.token_type is not None:
            summed = summed + self.look_up_types(self.token_type, batch)
        return dropout(self.norm(summed), self.dropout_prob, self.training)

    def look_up_positions(self, batch: Batch) -> Tensor:
        """[tokens, size]."""
        return self.position(batch.position_ids)  # type: ignore[no-any-return]

    def look_up_types(self, token_type: nn.Embedding, batch: Batch) -> Tensor:
        """[tokens, size]; a model with a single type does not tell segments apart."""
        if token_type.num_embeddings == 1:
            return token_type.weight
        return token_type(batch.token_type_ids)  # type: ignore[no-any-return]

    def number_columns(self, input_ids: Tensor) -> Tensor:
        """The position of each column of padded [batch, length], counted from 0."""
        return number_columns(input_ids)


class FeedForward(nn.Module):
    """Two projections with the activation between, applied to each token alone."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """[tokens, hidden] to the same."""
        return self.down(self.activation(self.up(hidden)))  # type: ignore[no-any-return]


class TransformerLayer(nn.Module):
    """Self-attention, then feed-forward; each is added to its input and normalized."""

    def __init__(self, config: BertConfig, number: int = 0) -> None:
        super().__init__()
        self.attention = SelfAttention(
            config.hidden_size,
            len(config.heads_of(number)),
            config.attention_probs_dropout_prob,
            config.head_size,
        )
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(
        self,
        hidden: Tensor,
        layout: Layout,
        record_weights: RecordWeights | None = None,
        first_tokens: Tensor | None = None,
    ) -> Tensor:
        """[tokens, hidden] to the same; attention weights pass through `record_weights`.

        With `first_tokens`, int64 [sequences], it is computed for these alone: all tokens are
        looked at, and [sequences, hidden] comes out.
        """
        attended = self.attention(
            hidden, layout, record_weights, first_only=first_tokens is not None
        )
        if first_tokens is not None:
            hidden = fill_up(hidden.index_select(0, first_tokens))
        return self.combine(hidden, attended)

    def combine(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """All of a layer but attention itself: [tokens, hidden] twice, to the same."""
        hidden = self.attention_norm(hidden + self.drop(attended))
        return self.feed_forward_norm(hidden + self.drop(self.feed_forward(hidden)))  # type: ignore[no-any-return]

    def drop(self, x: Tensor) -> Tensor:
        """Residual dropout (Vaswani et al. 2017, section 5.4)."""
        return dropout(x, self.dropout_prob, self.training)


class Pooler(nn.Module):
    """One vector per sequence: a dense layer with tanh over what `pooling` reads."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.pooling = config.pooling

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        """[tokens, hidden] to [sequences, hidden], in the batch's order."""
        if self.pooling == "mean":
            return self.project(mean_over_sequences(hidden, batch))
        return self.project(hidden.index_select(0, batch.first_tokens))

    def project(self, read: Tensor) -> Tensor:
        """Project the pooled state of each sequence, [sequences, hidden], to its vector."""
        return torch.tanh(self.dense(read))


def mean_over_sequences(hidden: Tensor, batch: Batch) -> Tensor:
    """The mean over each sequence's tokens, [sequences, hidden]; summed in fp32."""
    lengths = send(torch.tensor(batch.lengths), hidden.device)
    # The size is known here; a GPU would be waited for to learn it.
    sequence = torch.arange(batch.num_sequences, device=hidden.device).repeat_interleave(
        lengths, output_size=batch.num_tokens
    )
    total = hidden.new_zeros(batch.num_sequences, hidden.shape[-1], dtype=torch.float32)
    total = total.index_add(0, sequence, hidden.float())
    return (total / lengths[:, None]).to(hidden.dtype)


class BertModel(TrainableModel):
    """The encoder, its pooler, and the heads it was given; of BERT, or of the config's family.

    `heads` maps a name of `HEADS` in model/heads.py to a module made there. A pooler is built
    where a head reads it, or where there is no head at all, as in the released models; `pooler`
    overrides that.
    """

    def __init__(
        self,
        config: BertConfig,
        heads: Mapping[str, nn.Module] | None = None,
        *,
        pooler: bool | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.embeddings = config.build_embeddings()
        self.layers = nn.ModuleList(config.build_layers())
        self.heads = nn.ModuleDict(heads or {})
        if pooler is None:
            without = {*TOKEN_HEADS, *config.first_token_heads}
            is_read = any(name not in without for name in self.heads)
            pooler = is_read if self.heads else config.has_pooler
        self.pooler = Pooler(config) if pooler else None
        self.id2label: dict[int, str] = {}
        """Names of the outputs, if the model has a head with labels."""
        self.task_settings: dict[str, Any] = {}
        """What a task wants to find again in the folder, as plain JSON."""
        self.every_token = False
        """Whether `encode` computes the last layer for all tokens, though only some are wanted."""
        self.load_report: LoadReport | None = None
        """What `load_model` found, if the model was loaded."""
        self.apply(self.initialize)

    @property
    def companions(self) -> Mapping[str, "BertModel"]:
        """Models that are trained with this one, by the folder beside its files that each is saved
        in, which is also what the names of their parameters begin with."""
        return {}

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, each once; task heads stay in fp32.

        A head in bf16 could not tell 1997 from 2003, nor give probabilities to three digits, and
        its products are small.
        """
        exact = tuple(f"heads.{head}." for head in TASK_HEADS)
        specs = super().parameter_specs()
        return [replace(each, fp32_only=each.name.startswith(exact)) for each in specs]

    def initialize(self, module: nn.Module) -> None:
        """Weights from a normal distribution, biases zero, as the released code has it.

        The released code cuts the normal off at two standard deviations; like transformers,
        we do not.
        """
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def set_dropout(self, probability: float, attention: float | None = None) -> None:
        """Use another dropout probability, for attention weights too unless they have their own."""
        attention = probability if attention is None else attention
        self.config = replace(
            self.config,
            hidden_dropout_prob=probability,
            attention_probs_dropout_prob=attention,
        )
        for module in self.modules():
            if hasattr(module, "dropout_prob"):
                is_attention = isinstance(module, SelfAttention)
                module.dropout_prob = attention if is_attention else probability  # type: ignore[assignment]

    def encode(
        self,
        batch: Batch,
        trace: OutputRecorder | None = None,
        *,
        first_only: bool = False,
        words: Tensor | None = None,
    ) -> Tensor:
        """The last layer's vectors of a packed batch, [tokens, hidden].

        `words` are read in place of the word embeddings of its ids.

        With `first_only`, those of each sequence's first token, [sequences, hidden]: the last
        layer is computed for nothing else (an eighth of the time of 6 layers, a fifteenth of 12)
        unless `every_token` is set.
        """
        if first_only and self.every_token:
            return self.encode(batch, trace, words=words).index_select(0, batch.first_tokens)
        trace = trace or OutputRecorder()
        layout = Layout(batch.lengths, batch.input_ids.device)
        record_weights = None if trace.attentions is None else trace.record_weights
        hidden = trace.record(fill_up(self.embeddings(batch, words)), batch.num_tokens)
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            read = batch.first_tokens if first_only and number == last else None
            hidden = layer(hidden, layout, record_weights, read)
            hidden = trace.record(hidden, batch.num_tokens)
        return hidden[: batch.num_sequences if first_only else batch.num_tokens]

    def encode_pooled(self, batch: Batch) -> Tensor:
        """`pool` of `encode`, computing of the last layer only what the pooler reads."""
        if self.pooler is not None and self.pooler.pooling == "mean":
            return self.pooler(self.encode(batch), batch)  # type: ignore[no-any-return]
        self.check_pooler()
        read = self.encode(batch, first_only=True)
        return read if self.pooler is None else self.pooler.project(read)

    def pool(self, hidden: Tensor, batch: Batch) -> Tensor:
        """One vector per sequence, [sequences, hidden], in the batch's order: the pooler's, or the
        first token's own where the family's heads read that."""
        self.check_pooler()
        if self.pooler is None:
            return hidden.index_select(0, batch.first_tokens)
        return self.pooler(hidden, batch)  # type: ignore[no-any-return]

    def check_pooler(self) -> None:
        """Raise ConfigError if the model has no pooler and its family's heads would read one."""
        is_read = self.config.has_pooler and not {*self.heads} & {*self.config.first_token_heads}
        if self.pooler is None and is_read:
            raise ConfigError("This model has no pooler. Load it with a head that needs one.")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> ModelOutput:
        """The padded border: integer tensors [batch, length] in, `ModelOutput` out.

        `attention_mask` is 1 at real tokens and 0 at padding, in any pattern. A token's
        position is its column where `position_ids` do not say otherwise. `inputs_embeds`, [batch,
        length, embedding size], are read in place of the word embeddings of `input_ids`. Every
        output is zero at padding. Gradients by hidden states and attentions are those of
        transformers.

        Raises:
            InputError: shapes, types or values that the model cannot read; names the place.
        """
        border = self.pack(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        batch = border.batch
        trace = OutputRecorder(
            hidden_states=[] if output_hidden_states else None,
            attentions=[] if output_attentions else None,
            border=border,
        )
        words = None if inputs_embeds is None else border.repack(inputs_embeds)
        hidden = self.encode(batch, trace, words=words)
        states = trace.hidden_states
        logits = {name: self.predict(name, hidden, border) for name in self.heads}
        pooled = None if self.pooler is None else self.pool(hidden, batch)
        return ModelOutput(
            last_hidden_state=states[-1] if states else border.unpack(hidden),
            pooler_output=None if pooled is None else border.reorder(pooled),
            hidden_states=None if states is None else tuple(states),
            attentions=None if trace.attentions is None else tuple(trace.attentions),
            next_sentence_logits=logits.pop("next_sentence", None),
            sentence_order_logits=logits.pop("sentence_order", None),
            logits=next(iter(logits.values()), None),
        )

    def predict(self, name: str, hidden: Tensor, border: PaddedBatch) -> Tensor:
        """A head's logits at every position, or for every sequence, in the padded order."""
        if name == "masked_lm":
            return border.unpack(self.heads[name](hidden, self.embeddings.word.weight))
        if name in TOKEN_HEADS:
            return border.unpack(self.heads[name](hidden))
        return border.reorder(self.heads[name](self.pool(hidden, border.batch)))

    def pack(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> PaddedBatch:
        """Padded tensors as a packed batch that this model can read, or an InputError."""
        config, number = self.config, self.embeddings.number_columns
        if inputs_embeds is not None:
            input_ids = ids_in_place(input_ids, inputs_embeds, config.embedding_size)
            number = number_columns
        elif input_ids is None:
            raise InputError("input_ids: not given. Give them, or inputs_embeds in their place.")
        if position_ids is not None:
            check_is_tensor("position_ids", position_ids)
            if position_ids.shape[:1] == (1,):  # as in transformers, one row for all
                position_ids = position_ids.expand(len(input_ids), -1)
            check_tensor("position_ids", position_ids, input_ids.shape)
            given = position_ids.long() - config.first_position
            number = lambda input_ids: given  # noqa: E731
        border = PaddedBatch.pack(
            input_ids, attention_mask, token_type_ids, config.max_length, number
        )
        batch = border.batch
        if position_ids is not None:
            found = batch.position_ids + config.first_position
            border.check_range("position_ids", found, config.max_position_embeddings)
        border.check_range("input_ids", batch.input_ids, config.vocab_size)
        border.check_range("token_type_ids", batch.token_type_ids, max(1, config.type_vocab_size))
        return border


def encoder_names(prefix: str) -> dict[str, tuple[str, ...]]:
    """Our modules of an encoder to those of a family whose encoder transformers wrote after its
    BERT's."""
    layer = f"{prefix}.encoder.layer.{{i}}"
    return {
        "embeddings.word": (f"{prefix}.embeddings.word_embeddings",),
        "embeddings.position": (f"{prefix}.embeddings.position_embeddings",),
        "embeddings.token_type": (f"{prefix}.embeddings.token_type_embeddings",),
        "embeddings.norm": (f"{prefix}.embeddings.LayerNorm",),
        "layers.{i}.attention.qkv": (
            f"{layer}.attention.self.query",
            f"{layer}.attention.self.key",
            f"{layer}.attention.self.value",
        ),
        "layers.{i}.attention.output": (f"{layer}.attention.output.dense",),
        "layers.{i}.attention_norm": (f"{layer}.attention.output.LayerNorm",),
        "layers.{i}.feed_forward.up": (f"{layer}.intermediate.dense",),
        "layers.{i}.feed_forward.down": (f"{layer}.output.dense",),
        "layers.{i}.feed_forward_norm": (f"{layer}.output.LayerNorm",),
    }


ABSENT_SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}

ABSOLUTE = {"position_embedding_type": "absolute"}
ENCODER_ONLY = {**ABSOLUTE, "is_decoder": False, "add_cross_attention": False}

FAMILY = Family(
    config=BertConfig,
    heads=BERT_HEADS,
    names={
        **encoder_names("bert"),
        "pooler.dense": ("bert.pooler.dense",),
        "heads.masked_lm.dense": ("cls.predictions.transform.dense",),
        "heads.masked_lm.norm": ("cls.predictions.transform.LayerNorm",),
        "heads.masked_lm": ("cls.predictions",),
        **{f"heads.{name}.dense": ("cls.seq_relationship",) for name in PAIR_HEADS},
        **TASK_HEAD_NAMES,
    },
    architectures={
        **architectures("Bert"),
        **{frozenset({name}): "BertForNextSentencePrediction" for name in PAIR_HEADS},
        **{frozenset({"masked_lm", name}): "BertForPreTraining" for name in PAIR_HEADS},
    },
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    absent=ABSENT_SIZES,
    fixed=ENCODER_ONLY,
    written=ABSOLUTE,
)
