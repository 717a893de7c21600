"""BERT (Devlin et al. 2019): token ids in, one vector per token and one per sequence out.

The operations are those of the paper and the released code. Three embeddings are summed; then each
layer applies self-attention and feed-forward with GELU. Each of the two is followed by a residual
connection and LayerNorm ("post-LN"). Inside the model a batch is one packed row, [tokens, hidden]:
the real tokens of all sequences, one after another. Padded tensors exist only in
`BertModel.forward`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, Queries
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import set_dropout_sequences
from bertsmith.model.families import family_named
from bertsmith.model.head_losses import answer_loss, check_labels, head_loss, replaced_token_loss
from bertsmith.model.head_names import TASK_HEADS
from bertsmith.model.layers import LayerList
from bertsmith.model.load_report import LoadReport
from bertsmith.model.model_output import ModelOutput
from bertsmith.model.output_recorder import OutputRecorder
from bertsmith.model.padding import (
    PaddedBatch,
    check_tensor,
    flatten_choices,
    number_columns,
    placeholder_ids,
)
from bertsmith.model.row_layout import RowLayout
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.trainable import ParameterSpec, TrainableModel

TOKEN_HEADS = ("masked_lm", "tag", "answer", "replaced_token")
"""Heads that read every token's vector; the others read one vector of a sequence."""

LABEL_PROBLEMS = {
    "none": "This model has no head that could learn from labels. Load it with one, such as "
    'load_model(folder, heads=["classify"], num_labels=2).',
    "answer": "The head 'answer' needs both start_positions and end_positions, and no labels.",
    "others": "This model's head learns from labels. Give labels, not start_positions or "
    "end_positions.",
}
"""Messages for labels that a head does not take: that of a model without heads, that of the head
"answer", and that of all other heads."""


class BertModel(TrainableModel):
    """An encoder of the config's family (BERT or another), with its pooler and heads.

    A head is a module that computes logits. `heads` has them by name, such as "masked_lm" or
    "classify" (model/head_names.py); `build_heads` makes them. A pooler is built if a head reads
    it, or, without heads, if the family's released models have one. `pooler` overrides this choice.
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
            # In some families, such as RoBERTa, heads of texts read the first token themselves.
            heads_without_pooler = {*TOKEN_HEADS, *config.first_token_heads}
            is_read = any(name not in heads_without_pooler for name in self.heads)
            pooler = is_read if self.heads else config.has_pooler
        self.pooler = family.build_pooler(config) if pooler else None
        self.id2label: dict[int, str] = {}
        """Names of the outputs, if the model has a head with labels."""
        self.task_settings: dict[str, Any] = {}
        """Settings that a task keeps in the model's folder, as plain JSON values."""
        self.computes_all_tokens = len(self.layers) == 0
        """Whether `encode` computes the last layer for all tokens even if `queries` names only
        some. Set it to read that layer's vectors or weights for all tokens, as distillation does.
        A model without layers has no last layer that could be computed for some."""
        self.is_batch_invariant = False
        """Whether each sequence is computed in shapes that depend on itself alone. Its outputs then
        have the same bytes in any batch: in fp32 on a CPU, by one thread or two."""
        self.load_report: LoadReport | None = None
        """Report of `load_model`, if the model was loaded."""
        self.apply(self.initialize)

    @property
    def companions(self) -> Mapping[str, "BertModel"]:
        """Models trained with this one, such as ELECTRA's generator with the discriminator.

        Each has a name: that of the subfolder in which it is saved, and with which the names of its
        parameters begin.
        """
        return {}

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, each once; task heads stay in fp32.

        A regression head in bf16 could not tell 1997 from 2003, and probabilities in bf16 lack
        three exact digits. In fp32 these heads cost little, since their products are small.
        Recurrent layers stay in fp32, too, as torch computes them on a CPU.
        """
        fp32_prefixes = tuple(f"heads.{head}." for head in TASK_HEADS)
        if self.config.is_recurrent:
            fp32_prefixes += ("layers.",)
        specs = super().parameter_specs()
        return [replace(spec, fp32_only=spec.name.startswith(fp32_prefixes)) for spec in specs]

    def initialize(self, module: nn.Module) -> None:
        """Draw a module's weights as the family's released code does (`Family.initialize`)."""
        family_named(self.config.model_type).initialize(module, self.config)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the weights by our names; a weight that several layers share is copied for each.

        The copies are needed since safetensors writes no tensors that share memory.
        """
        state = super().state_dict(*args, **options)
        if not options.get("keep_vars"):
            # If this model is part of another module, torch passes the prefix of its names, and
            # `state` also has the weights of that module.
            prefix = options.get("prefix", "")
            all_names = {name for name, _ in self.named_parameters(remove_duplicate=False)}
            first_names = {name for name, _ in self.named_parameters()}
            for name in all_names - first_names:
                state[prefix + name] = state[prefix + name].clone()
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
        recorder: OutputRecorder | None = None,
        *,
        queries: Queries = "all",
        words: Tensor | None = None,
    ) -> Tensor:
        """Encode a packed batch to the last layer's vectors, `[tokens, hidden]`.

        They have the dtype of the weights, fp32 or bf16. `recorder` collects hidden states and
        attention weights, if the caller wants them. `words`, `[tokens, embedding size]`, replace
        the word embeddings of the batch's ids.

        With `queries` "first" or "last", only the vectors of each sequence's first or last token
        are returned, `[sequences, hidden]`. The last layer is then computed for these tokens only,
        unless `computes_all_tokens` is set. This saves an eighth of the time of a model of 6
        layers, and a fifteenth of one of 12.
        """
        if queries != "all" and self.computes_all_tokens:
            indices = batch.first_tokens if queries == "first" else batch.last_tokens
            return self.encode(batch, recorder, words=words).index_select(0, indices)
        recorder = recorder or OutputRecorder()  # this one records nothing
        set_dropout_sequences(batch.lengths, batch.step_indices)
        layout = RowLayout(
            batch.lengths,
            batch.input_ids.device,
            batch.position_ids,
            batch.columns,
            by_length=self.is_batch_invariant,
        )
        record_weights = None if recorder.attentions is None else recorder.record_attention
        # `fill_up` adds padding rows after the last token; they are cut off at the end.
        hidden = recorder.record_hidden(fill_up(self.embeddings(batch, words)), batch.num_tokens)
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            picked = layout.pick(queries) if number == last else None
            hidden = layer(hidden, layout, record_weights, picked)
            if number == last:
                hidden = self.final_norm(hidden)
            hidden = recorder.record_hidden(hidden, batch.num_tokens)
        return hidden[: batch.num_tokens if queries == "all" else batch.num_sequences]

    def encode_pooled(self, batch: Batch) -> Tensor:
        """Encode and pool to `[sequences, hidden]`, in the batch's order and the weights' dtype.

        The last layer is computed only for the tokens that the pooler reads.

        Raises:
            ConfigError: as `check_pooler`.
        """
        if self.pooler is None:
            self.check_pooler()
            return self.encode(batch, queries="first")  # as `pool`: the first token's vector
        queries = self.pooler.queries
        vectors = self.encode(batch, queries=queries)
        if queries == "all":
            vectors = self.pooler.read(vectors, batch)
        return self.apply_to_rows(self.pooler.project, vectors)

    def apply_to_rows(self, compute: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
        """Apply a pooler or a head to `[rows, hidden]`, row by row; the result is `[rows, ...]`.

        A batch-invariant model adds padding rows by `fill_up`: for one to three rows, and for a
        single output, libraries use kernels that round differently.
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
        """Refuse to pool if the model lacks the pooler that its heads would read.

        Raises:
            ConfigError: there is no pooler, and the family's heads would read one.
        """
        reads_first_token = any(name in self.config.first_token_heads for name in self.heads)
        is_read = self.config.has_pooler and not reads_first_token
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

        `attention_mask` is 1 at real tokens and 0 at padding, in any pattern. Heads that read one
        vector of a sequence read that of its first real token, in BERT; transformers takes the
        vector of column 0, even if this column is padding. `position_ids` are by default those of
        the family, in BERT the column numbers; a single row of them is used for all sequences.
        `inputs_embeds`, `[batch, length, embedding size]`, replace the word embeddings of
        `input_ids`.

        Outputs are zero at padding, and have the dtype of the weights. Gradients with respect to
        hidden states and attentions equal those of transformers. `loss` needs `labels`, or for
        "answer" `start_positions` and `end_positions` (`model/head_losses.py`). With "masked_lm"
        and a pair head, `loss` is the masked-LM loss.

        Raises:
            InputError: shapes, types or values that the model cannot read; the message says where.
            ConfigError: no head of the model learns from these labels.
        """
        num_choices = None
        if "choose" in self.heads and isinstance(input_ids, Tensor) and input_ids.ndim == 3:
            num_choices = input_ids.shape[1]
            input_ids, attention_mask, token_type_ids, position_ids = map(
                flatten_choices, (input_ids, attention_mask, token_type_ids, position_ids)
            )
        padded = self.pack(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        batch = padded.batch
        recorder = OutputRecorder(
            hidden_states=[] if output_hidden_states else None,
            attentions=[] if output_attentions else None,
            padded=padded,
        )
        words = None if inputs_embeds is None else padded.repack(inputs_embeds)
        hidden = self.encode(batch, recorder, words=words)
        states = recorder.hidden_states
        logits = {name: self.predict(name, hidden, padded) for name in self.heads}
        pooled = None if self.pooler is None else self.pool(hidden, batch)
        if num_choices is not None:
            logits["choose"] = logits["choose"].view(-1, num_choices)
        starts, ends = logits["answer"].unbind(-1) if "answer" in logits else (None, None)
        loss = None
        answer_positions = (start_positions, end_positions)
        if any(target is not None for target in (labels, *answer_positions)):
            loss = self._loss(logits, labels, answer_positions, padded)
        return ModelOutput(
            last_hidden_state=states[-1] if states else padded.unpack(hidden),
            pooler_output=None if pooled is None else padded.reorder(pooled),
            hidden_states=None if states is None else tuple(states),
            attentions=None if recorder.attentions is None else tuple(recorder.attentions),
            next_sentence_logits=logits.pop("next_sentence", None),
            sentence_order_logits=logits.pop("sentence_order", None),
            # The pair heads are taken out above; of the others, the first has this output.
            logits=next(iter(logits.values()), None),
            start_logits=starts,
            end_logits=ends,
            loss=loss,
        )

    def _loss(
        self,
        logits: Mapping[str, Tensor],
        labels: Tensor | None,
        answer_positions: tuple[Tensor | None, Tensor | None],
        padded: PaddedBatch,
    ) -> Tensor:
        """Compute the loss of the first head from labels, or of "answer" from starts and ends.

        Raises:
            ConfigError: the targets are not those that the model's head learns from.
        """
        head = next(iter(logits), "none")
        start, end = answer_positions
        if head == "answer" and start is not None and end is not None:
            is_real = padded.unpack(torch.ones_like(padded.cells, dtype=torch.bool))
            return answer_loss(logits[head], is_real, start, end)
        if head in LABEL_PROBLEMS or labels is None:
            raise ConfigError(LABEL_PROBLEMS.get(head, LABEL_PROBLEMS["others"]))
        if head == "replaced_token":
            labels = check_labels(head, labels, logits[head].shape)
            return replaced_token_loss(padded.repack(logits[head]), padded.repack(labels))
        return head_loss(head, logits[head], labels)

    def predict(self, name: str, hidden: Tensor, padded: PaddedBatch) -> Tensor:
        """Compute a head's logits in the padded order, from packed `hidden` [tokens, hidden].

        Shapes: [batch, length, vocabulary] of "masked_lm", [batch, length] or [batch, length,
        outputs] of other heads that read every token, [batch, outputs] of those that read one
        vector of a sequence.
        """
        if name == "masked_lm":
            return padded.unpack(self.heads[name](hidden, self.embeddings.word.weight))
        if name in TOKEN_HEADS:
            return padded.unpack(self.heads[name](hidden))
        return padded.reorder(self.heads[name](self.pool(hidden, padded.batch)))

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
            InputError: shapes, types or values that the model cannot read; the message says where.
        """
        config = self.config
        # `number_tokens` computes the positions of tokens from their ids: RoBERTa counts only
        # tokens whose id is not that of padding. Vectors in place of ids have no padding id, so
        # their columns are counted.
        number_tokens = self.embeddings.number_columns
        if inputs_embeds is not None:
            input_ids = placeholder_ids(input_ids, inputs_embeds, config.embedding_size)
            number_tokens = number_columns
        elif input_ids is None:
            raise InputError("input_ids: not given. Give them, or inputs_embeds in their place.")
        if position_ids is not None:
            check_tensor("input_ids", input_ids, shape=None)
            check_tensor("position_ids", position_ids, shape=None)
            if len(position_ids) == 1:  # as in transformers, one row for all
                position_ids = position_ids.expand(len(input_ids), -1)
            check_tensor("position_ids", position_ids, input_ids.shape)
            # A batch counts from 0, callers from the position of a first token, 2 in RoBERTa.
            positions = position_ids.long() - config.first_position

            def return_positions(input_ids: Tensor) -> Tensor:
                return positions

            number_tokens = return_positions  # instead of positions computed from ids
        padded = PaddedBatch.pack(
            input_ids, attention_mask, token_type_ids, config.max_length, number_tokens
        )
        batch = padded.batch
        if position_ids is not None:
            stored_ids = batch.position_ids + config.first_position
            padded.check_range("position_ids", stored_ids, config.max_position_embeddings)
        padded.check_range("input_ids", batch.input_ids, config.vocab_size)
        if config.type_vocab_size > 1:  # else the model does not read them
            padded.check_range("token_type_ids", batch.token_type_ids, config.type_vocab_size)
        return padded
