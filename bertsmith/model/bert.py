"""BERT (Devlin et al. 2019): token ids in, one vector per token and one per sequence out.

The operations are those of the paper and the released code, in their
order: three embeddings summed, then layers of self-attention and feed-forward with GELU, each
followed by a residual connection and LayerNorm ("post-LN"). Inside, a batch is one packed row of
real tokens, [tokens, hidden], so nothing is ever computed for padding; padded tensors exist only in
`BertModel.forward`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, Queries
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import follow
from bertsmith.model.families import family_named
from bertsmith.model.head_losses import answer_loss, check_labels, head_loss, replaced_token_loss
from bertsmith.model.head_names import TASK_HEADS
from bertsmith.model.layers import LayerList
from bertsmith.model.load_report import LoadReport
from bertsmith.model.padding import (
    PaddedBatch,
    check_is_tensor,
    check_tensor,
    ids_in_place,
    number_columns,
)
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.trainable import ParameterSpec, TrainableModel

Item = TypeVar("Item")

TOKEN_HEADS = ("masked_lm", "tag", "answer", "replaced_token")
"""Heads that read every token's vector; the others read one vector of a sequence."""

LABELS_OF = {
    "none": "labels: found them for a model without a head. Load it with one, such as "
    'load_model(folder, heads=["classify"], num_labels=2).',
    "answer": "start_positions, end_positions: found one alone, or labels; the head 'answer' takes "
    "these two, without labels. Give both.",
    "others": "start_positions: found them without labels, which this model's head learns from. "
    "Give labels.",
}
"""Messages for labels that a head does not take."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelOutput(dict[str, Any]):
    """Outputs of `BertModel.forward`, padded as its input was; None where absent.

    Shapes: `last_hidden_state` and each of `hidden_states` (embeddings first, then every layer)
    [batch, length, hidden]; each of `attentions` [batch, heads, length, length]; `pooler_output`
    [batch, hidden]; `logits` [batch, length, vocabulary] from a masked-LM head, [batch, labels]
    from a head that reads the pooler, [batch, length, outputs] from one that reads every token,
    [batch, length] from "replaced_token", [batch, choices] from "choose" of inputs [batch, choices,
    length]; `next_sentence_logits` and `sentence_order_logits` [batch, 2]; `start_logits` and
    `end_logits` [batch, length], the two columns of the logits of "answer"; `loss` a scalar.

    As a dict, and by number or slice, it holds the outputs that transformers' models return,
    without those that are None. A model with heads has `loss`, its logits, `hidden_states` and
    `attentions`.
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    logits: Tensor | None = None
    next_sentence_logits: Tensor | None = None
    sentence_order_logits: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    loss: Tensor | None = None

    def __post_init__(self) -> None:
        items: Any = self.last_hidden_state
        if isinstance(items, dict):  # accelerate rebuilds an output from a dict of its items
            for field in fields(self):
                object.__setattr__(self, field.name, items.get(field.name))
        logits = ("logits",) if self.start_logits is None else ("start_logits", "end_logits")
        names = (*logits, "next_sentence_logits", "sentence_order_logits")
        if all(getattr(self, name) is None for name in names):
            names = ("last_hidden_state", "pooler_output")
        for name in ("loss", *names, "hidden_states", "attentions"):
            if (value := getattr(self, name)) is not None:
                self[name] = value

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the items of the dict, in the order of transformers' outputs."""
        return tuple(self.values())

    def __getitem__(self, key: int | slice | str) -> Any:
        return getattr(self, key) if isinstance(key, str) else self.to_tuple()[key]


@dataclass
class OutputRecorder:
    """Outputs of layers that the caller of `forward` asked for; None if not asked for.

    Outputs are padded by `border`, which is needed if any is asked for. The model goes on with
    vectors packed again from the padded outputs, so that these are part of the graph and have
    gradients.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    border: PaddedBatch | None = None

    def record(self, hidden: Tensor, num_tokens: int) -> Tensor:
        """Keep the vectors that enter the first layer or leave a layer, if they were asked for.

        `hidden` is [tokens, hidden] and may end in padding rows; those beyond `num_tokens` are not
        kept.

        Returns:
            Vectors for the next layer, of the same shape and dtype, filled up.
        """
        if self.hidden_states is None:
            return hidden
        hidden = hidden[:num_tokens]
        assert self.border is not None
        self.hidden_states.append(self.border.unpack(hidden))
        return fill_up(self.border.repack(self.hidden_states[-1]))

    def record_weights(self, blocks: Sequence[Tensor]) -> list[Tensor]:
        """Keep a layer's attention weights, in the form of `PaddedBatch.unpack_attention`.

        `blocks` and the result have [sequences, heads, length, length] for each block, in one
        dtype.
        """
        assert self.attentions is not None
        assert self.border is not None
        self.attentions.append(self.border.unpack_attention(blocks))
        return self.border.repack_attention(self.attentions[-1], blocks)


class BertModel(TrainableModel):
    """An encoder of the config's family (BERT or another), with its pooler and heads.

    `heads` maps a name of `HEADS` (model/head_names.py) to a module that `build_heads` made. A
    pooler is built if a head reads it. Without heads it is built if the family's released models
    have a pooler. `pooler` overrides both.
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
        family = family_named(config.model_type)
        self.embeddings = family.build_embeddings(config)
        self.layers = LayerList(family.build_layers(config))
        self.final_norm = family.build_final_norm(config)
        self.heads = nn.ModuleDict(heads or {})
        if pooler is None:
            without = {*TOKEN_HEADS, *config.first_token_heads}
            is_read = any(name not in without for name in self.heads)
            pooler = is_read if self.heads else config.has_pooler
        self.pooler = family.build_pooler(config) if pooler else None
        self.id2label: dict[int, str] = {}
        """Names of the outputs, if the model has a head with labels."""
        self.task_settings: dict[str, Any] = {}
        """Settings that a task keeps in the model's folder, as plain JSON values."""
        self.every_token = not len(self.layers)
        """Whether `encode` computes the last layer for all tokens, though only some are wanted."""
        self.is_batch_invariant = False
        """Whether each sequence is computed in shapes that depend on itself alone, so that its
        outputs have the same bytes in any batch: in fp32 on a CPU, by one thread or two."""
        self.load_report: LoadReport | None = None
        """Report of `load_model`, if the model was loaded."""
        self.apply(self.initialize)

    @property
    def companions(self) -> Mapping[str, "BertModel"]:
        """Models trained with this one, by the subfolder of its folder that each is saved in.

        The names of their parameters begin with the name of that subfolder.
        """
        return {}

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, each once; task heads stay in fp32.

        A regression head in bf16 could not tell 1997 from 2003, and probabilities in bf16 lack
        three exact digits. In fp32 these heads cost little, since their products are small.
        Recurrent layers stay in fp32, too, as torch computes them on a CPU.
        """
        exact = tuple(f"heads.{head}." for head in TASK_HEADS)
        if self.config.is_recurrent:
            exact += ("layers.",)
        specs = super().parameter_specs()
        return [replace(each, fp32_only=each.name.startswith(exact)) for each in specs]

    def initialize(self, module: nn.Module) -> None:
        """Draw a module's weights as the family's released code does (`Family.initialize`)."""
        family_named(self.config.model_type).initialize(module, self.config)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the weights by our names, with copies for further layers that share a weight.

        The copies are needed since safetensors writes no tensors that share memory.
        """
        state = super().state_dict(*args, **options)
        if not options.get("keep_vars"):
            own = dict(self.named_parameters(), **dict(self.named_buffers()))
            for name in state.keys() - own.keys():
                state[name] = state[name].clone()
        return state

    def set_dropout(self, probability: float, attention: float | None = None) -> None:
        """Set the dropout probability; `attention`, if not None, is that of attention weights."""
        attention = probability if attention is None else attention
        self.config = self.config.with_dropout(probability, attention)
        for module in self.modules():
            if hasattr(module, "dropout_prob"):
                is_attention = isinstance(module, SelfAttention)
                module.dropout_prob = attention if is_attention else probability  # type: ignore[assignment]

    def encode(
        self,
        batch: Batch,
        trace: OutputRecorder | None = None,
        *,
        queries: Queries = "all",
        words: Tensor | None = None,
    ) -> Tensor:
        """Encode a packed batch to the last layer's vectors, `[tokens, hidden]`.

        They have the dtype of the weights, fp32 or bf16. `words`, `[tokens, embedding size]`,
        replace the word embeddings of the batch's ids.

        With other `queries` than all, return the vectors of first or last tokens, `[sequences,
        hidden]`. The last layer is then computed for these alone (an eighth of the time of 6
        layers, a fifteenth of 12) unless `every_token` is set.
        """
        if queries != "all" and self.every_token:
            wanted = batch.first_tokens if queries == "first" else batch.last_tokens
            return self.encode(batch, trace, words=words).index_select(0, wanted)
        trace = trace or OutputRecorder()
        follow(batch.lengths, batch.places)
        layout = RowLayout(
            batch.lengths,
            batch.input_ids.device,
            batch.position_ids,
            batch.columns,
            by_length=self.is_batch_invariant,
        )
        record_weights = None if trace.attentions is None else trace.record_weights
        hidden = trace.record(fill_up(self.embeddings(batch, words)), batch.num_tokens)
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            picked = layout.pick(queries) if number == last else None
            hidden = layer(hidden, layout, record_weights, picked)
            if number == last:
                hidden = self.final_norm(hidden)
            hidden = trace.record(hidden, batch.num_tokens)
        return hidden[: batch.num_tokens if queries == "all" else batch.num_sequences]

    def encode_pooled(self, batch: Batch) -> Tensor:
        """Encode and pool to `[sequences, hidden]`, in the batch's order and the weights' dtype.

        Unless the pooler reads all tokens, the last layer computes only those that it reads.

        Raises:
            ConfigError: as `check_pooler`.
        """
        if self.pooler is None:
            self.check_pooler()
            return self.encode(batch, queries="first")
        queries = self.pooler.queries
        read = self.encode(batch, queries=queries)
        if queries == "all":
            read = self.pooler.read(read, batch)
        return self.apply_to_rows(self.pooler.project, read)

    def apply_to_rows(self, compute: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
        """Apply a pooler or a head to `[rows, hidden]`; it gives `[rows, ...]`, each from its row.

        If the model is batch-invariant, padding rows fill the number up as in `fill_up`: for one to
        three rows, and for a single output, libraries round by other kernels.
        """
        if self.is_batch_invariant:
            return compute(fill_up(vectors))[: len(vectors)]
        return compute(vectors)

    def pool(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Pool `[tokens, hidden]` to `[sequences, hidden]`; without a pooler, take first tokens.

        Raises:
            ConfigError: as `check_pooler`.
        """
        self.check_pooler()
        if self.pooler is None:
            return hidden.index_select(0, batch.first_tokens)
        return self.pooler(hidden, batch)

    def check_pooler(self) -> None:
        """Refuse a model that lacks the pooler that its heads, or its caller, would read.

        Raises:
            ConfigError: there is no pooler, and the family's heads would read one.
        """
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
        labels: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> ModelOutput:
        """Run the model on padded integer tensors `[batch, length]`.

        A model with the head "choose" takes `[batch, choices, length]`, too.

        `attention_mask` is 1 at real tokens and 0 at padding, in any pattern. A head that reads one
        vector of a sequence takes the first real token's; transformers takes that of column 0 even
        if it is padding. `position_ids` default to the columns; a single row serves all sequences.
        `inputs_embeds`, `[batch, length, embedding size]`, replace the word embeddings of
        `input_ids`. Every output is zero at padding, and of the weights' dtype. Gradients by hidden
        states and attentions equal those of transformers. `loss` needs `labels`, or for "answer"
        `start_positions` and `end_positions` (`model/head_losses.py`). A model with "masked_lm" and
        a head for pairs has the masked-LM loss alone.

        Raises:
            InputError: shapes, types or values that the model cannot read; names the place.
            ConfigError: labels that no head of the model learns from.
        """
        num_choices = None
        if "choose" in self.heads and isinstance(input_ids, Tensor) and input_ids.ndim == 3:
            num_choices = input_ids.shape[1]
            input_ids, attention_mask, token_type_ids, position_ids = (
                None if x is None else x.flatten(0, 1)
                for x in (input_ids, attention_mask, token_type_ids, position_ids)
            )
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
        if num_choices is not None:
            logits["choose"] = logits["choose"].view(-1, num_choices)
        starts, ends = logits["answer"].unbind(-1) if "answer" in logits else (None, None)
        loss = None
        places = (start_positions, end_positions)
        if any(target is not None for target in (labels, *places)):
            loss = self._loss(logits, labels, places, border)
        return ModelOutput(
            last_hidden_state=states[-1] if states else border.unpack(hidden),
            pooler_output=None if pooled is None else border.reorder(pooled),
            hidden_states=None if states is None else tuple(states),
            attentions=None if trace.attentions is None else tuple(trace.attentions),
            next_sentence_logits=logits.pop("next_sentence", None),
            sentence_order_logits=logits.pop("sentence_order", None),
            logits=next(iter(logits.values()), None),
            start_logits=starts,
            end_logits=ends,
            loss=loss,
        )

    def _loss(
        self,
        logits: Mapping[str, Tensor],
        labels: Tensor | None,
        places: tuple[Tensor | None, Tensor | None],
        border: PaddedBatch,
    ) -> Tensor:
        """Compute the loss of the first head by labels, or of "answer" by start and end.

        Raises:
            ConfigError: the given targets are not those that the model's head learns from.
        """
        head = next(iter(logits), "none")
        start, end = places
        if head == "answer" and start is not None and end is not None:
            is_real = border.unpack(torch.ones_like(border.cells, dtype=torch.bool))
            return answer_loss(logits[head], is_real, start, end)
        if head in LABELS_OF or labels is None:
            raise ConfigError(LABELS_OF.get(head, LABELS_OF["others"]))
        if head == "replaced_token":
            labels = check_labels(head, labels, logits[head].shape)
            return replaced_token_loss(border.repack(logits[head]), border.repack(labels))
        return head_loss(head, logits[head], labels)

    def predict(self, name: str, hidden: Tensor, border: PaddedBatch) -> Tensor:
        """Compute a head's logits in the padded order, from packed `hidden` [tokens, hidden].

        Shapes: [batch, length, vocabulary] of "masked_lm", [batch, length] or [batch, length,
        outputs] of other heads that read every token, [batch, outputs] of those that read one
        vector of a sequence.
        """
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
        """Pack the padded inputs of `forward`, with its shapes and defaults.

        Raises:
            InputError: shapes, types or values that the model cannot read; names the place.
        """
        config = self.config
        number = self.embeddings.number_columns
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
            positions = position_ids.long() - config.first_position

            def number_as_given(input_ids: Tensor) -> Tensor:
                return positions

            number = number_as_given
        border = PaddedBatch.pack(
            input_ids, attention_mask, token_type_ids, config.max_length, number
        )
        batch = border.batch
        if position_ids is not None:
            stored_ids = batch.position_ids + config.first_position
            border.check_range("position_ids", stored_ids, config.max_position_embeddings)
        border.check_range("input_ids", batch.input_ids, config.vocab_size)
        if config.type_vocab_size > 1:  # else they are not read
            border.check_range("token_type_ids", batch.token_type_ids, config.type_vocab_size)
        return border
