"""The systems other than BERT that `look` shows: a GPT, the Transformer of 2017, and T5.

Here a system and the texts that it reads are one object, which computes its attention, vectors and
logits.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from bertsmith.data.batches import pack
from bertsmith.inspection.head_vectors import HeadVectors, recording_vectors
from bertsmith.inspection.module_hooks import (
    AttentionKey,
    ids_on,
    recording_attention,
    recording_inputs,
    recording_outputs,
    replacing_words,
)
from bertsmith.inspection.saliency import Target, sum_cells
from bertsmith.lineage.gpt import Gpt
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.transformer import Transformer


@dataclass(frozen=True)
class AttentionPart:
    """The attention of a stack of layers, from one sequence to another or to itself.

    `rows` is the index of the sequence whose tokens attend, and `columns` the index of the sequence
    that they attend to. Each of the `layers` layers has `heads` heads.
    """

    name: str
    layers: int
    heads: int
    rows: int = 0
    columns: int = 0


@dataclass(frozen=True, eq=False)
class SystemOutputs:
    """One pass over a system's sequences.

    `attentions` has for each part and layer fp32 [heads, rows, columns], and `head_vectors` the
    queries and keys from which these weights come. `hidden_states` has for each layer the vectors
    of the last sequence, [tokens, hidden], embeddings first. To all of them the norm after the last
    layer is applied.
    """

    attentions: tuple[tuple[Tensor, ...], ...]
    hidden_states: tuple[Tensor, ...]
    head_vectors: tuple[tuple[HeadVectors, ...], ...]


class ShownSystem(ABC):
    """A system and the sequences of token ids that it reads: a text, or a source and a target.

    Attributions compare the sequences with a baseline. The baseline keeps the tokens of `kept_ids`,
    such as the start token; every other token is replaced by `baseline_id`, or its word vector by
    zeros if `baseline_id` is None.
    """

    model: Any
    parts: Sequence[AttentionPart]

    def __init__(
        self,
        sequences: Sequence[Sequence[int]],
        kept_ids: Sequence[int],
        baseline_id: int | None = None,
    ) -> None:
        self.sequences = sequences
        self.kept_ids = kept_ids
        self.baseline_id = baseline_id

    def with_model(self, model: Any) -> Self:
        """Return a reader of the same sequences by another model of the same shape."""
        other = copy.copy(self)
        other.model = model
        return other

    @property
    @abstractmethod
    def word(self) -> nn.Embedding:
        """The embedding of words, which all sequences share."""

    @abstractmethod
    def encode(self, copies: int = 1) -> Tensor:
        """Compute the vectors of copies of the last sequence, [copies * tokens, hidden]."""

    @abstractmethod
    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return for each token the logits of the token that follows it, [tokens, vocabulary]."""

    @abstractmethod
    def attention_modules(self) -> Mapping[AttentionKey, nn.Module]:
        """Return the modules of attention by their part and layer."""

    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """Return the layers through which the last sequence passes, from the first."""

    def finish(self, hidden: Tensor) -> Tensor:
        """Apply the final norm, if the model has one, to a layer's vectors [tokens, hidden]."""
        return hidden

    @torch.no_grad()
    def compute(self, without: Sequence[tuple[int, int]] = ()) -> SystemOutputs:
        """Compute attention and vectors.

        Args:
            without: heads of the first part that add nothing to their layers, each as (layer,
                head) from 0.
        """
        recorded: dict[AttentionKey, Tensor] = {}

        def receive(key: AttentionKey, weights: Tensor) -> None:
            recorded[key] = weights

        disabled: dict[AttentionKey, list[int]] = {}
        for layer, head in without:
            disabled.setdefault((0, layer), []).append(head)
        modules = self.attention_modules()
        with (
            recording_attention(modules, receive, disabled),
            recording_vectors(modules.values()) as calls,
            recording_outputs(self.layers()) as outputs,
            recording_inputs(self.layers()[0]) as inputs,
        ):
            hidden = self.encode()
        calls_by_module = {call.module: call for call in calls}
        attentions = []
        head_vectors = []
        for number, part in enumerate(self.parts):
            # Rows and columns after the tokens of a sequence are padding.
            num_rows = len(self.sequences[part.rows])
            num_columns = len(self.sequences[part.columns])
            keys = [(number, layer) for layer in range(part.layers)]
            attentions.append(tuple(recorded[key][:, :num_rows, :num_columns] for key in keys))
            part_calls = [calls_by_module[modules[key]] for key in keys]
            head_vectors.append(tuple(call.vectors(num_rows, num_columns) for call in part_calls))
        length = len(self.sequences[-1])
        embedded = inputs[0]  # the vectors that enter the first layer
        lower = [self.finish(vectors[:length]) for vectors in (embedded, *outputs[:-1])]
        return SystemOutputs(tuple(attentions), (*lower, hidden), tuple(head_vectors))

    @torch.no_grad()
    def next_token_logits(self, hidden: Tensor) -> Tensor:
        """Return `compute_logits` without gradients, fp32 [tokens, vocabulary], on the CPU."""
        return self.compute_logits(hidden).float().cpu()

    def embed_path_ends(self) -> tuple[Tensor, Tensor]:
        """Return the word vectors of the baseline and of all sequences, fp32 [tokens, hidden].

        In the baseline, a vector of zeros, or that of `baseline_id`, takes the place of each word
        that is not in `kept_ids`.
        """
        ids = [id_ for sequence in self.sequences for id_ in sequence]
        weight = self.word.weight.detach()
        vectors = weight[ids_on(ids, weight.device)].float()
        replacement = torch.zeros_like(vectors)
        if self.baseline_id is not None:
            replacement += weight[self.baseline_id].float()
        is_kept = torch.from_numpy(np.isin(ids, list(self.kept_ids))).to(weight.device)
        baseline = torch.where(is_kept[:, None], vectors, replacement)
        return baseline, vectors

    def compute_target_logits(self, words: Tensor, targets: Sequence[Target]) -> Tensor:
        """Compute the logit of each target, fp32 [copies, targets].

        `words` are the word vectors of copies of all sequences, one sequence after another:
        [copies, tokens, embedding size]. Positions of targets count the last sequence's tokens.
        """
        lengths = [len(sequence) for sequence in self.sequences]
        copies = len(words)
        # The embedding is called once for each sequence, with all copies of it.
        vectors = [each.flatten(0, 1) for each in torch.split(words, lengths, dim=1)]
        with replacing_words(self.word, vectors):
            hidden = self.encode(copies)
        positions = sorted({position for target in targets for position, _ in target.cells})
        chosen = hidden.view(copies, lengths[-1], -1)[:, positions].flatten(0, 1)
        logits = self.compute_logits(chosen).float().view(copies, len(positions), -1)
        return sum_cells(logits, positions, targets)


class ShownGpt(ShownSystem):
    """A GPT, which reads one text from left to right."""

    def __init__(self, model: Gpt, ids: Sequence[int], kept_ids: Sequence[int]) -> None:
        super().__init__([ids], kept_ids)
        self.model = model
        config = model.config
        self.parts = (AttentionPart("the text to itself", config.n_layer, config.n_head),)

    @property
    def word(self) -> nn.Embedding:
        return self.model.word

    def encode(self, copies: int = 1) -> Tensor:
        ids = np.array(self.sequences[0], np.int32)
        batch = pack([ids] * copies).to(self.model.device)  # one after another, without padding
        return self.model.encode(batch)

    def compute_logits(self, hidden: Tensor) -> Tensor:
        return self.model.compute_logits(hidden)

    def attention_modules(self) -> Mapping[AttentionKey, nn.Module]:
        return {(0, n): layer.attention for n, layer in enumerate(self.model.layers)}

    def layers(self) -> Sequence[nn.Module]:
        return list(self.model.layers)

    def finish(self, hidden: Tensor) -> Tensor:
        return self.model.final_norm(hidden)


class ShownEncoderDecoder(ShownSystem):
    """A Transformer or T5, which writes a target while it sees a source.

    The sequences are the source, and the target with the start token before it, as the decoder
    reads it. `baseline_id` replaces words in the baseline; None puts vectors of zeros there.
    """

    def __init__(
        self,
        model: Transformer | T5,
        source: Sequence[int],
        target: Sequence[int],
        baseline_id: int | None,
    ) -> None:
        super().__init__([source, target], (model.start_id, model.end_id), baseline_id)
        self.model = model
        encoder_heads, decoder_heads = count_heads(model)
        layers = len(model.decoder)
        self.parts = (
            AttentionPart("the source to itself", len(model.encoder), encoder_heads),
            AttentionPart("the target to itself", layers, decoder_heads, rows=1, columns=1),
            AttentionPart("the target to the source", layers, decoder_heads, rows=1, columns=0),
        )

    @property
    def word(self) -> nn.Embedding:
        return self.model.word

    def encode(self, copies: int = 1) -> Tensor:
        source, target = self.sequences
        # `of` puts the start token before a target and drops its last token, here the end token.
        target_ids = [*target[1:], self.model.end_id]
        batch = SourceTarget.of([source] * copies, [target_ids] * copies, target[0])
        return self.model.decode(batch.to(self.model.device))

    def compute_logits(self, hidden: Tensor) -> Tensor:
        return self.model.compute_logits(hidden)

    def attention_modules(self) -> Mapping[AttentionKey, nn.Module]:
        encoder = {(0, n): layer.attention for n, layer in enumerate(self.model.encoder)}
        decoder = {(1, n): layer.attention for n, layer in enumerate(self.model.decoder)}
        cross = {(2, n): layer.source_attention for n, layer in enumerate(self.model.decoder)}
        return {**encoder, **decoder, **cross}

    def layers(self) -> Sequence[nn.Module]:
        return list(self.model.decoder)

    def finish(self, hidden: Tensor) -> Tensor:
        return self.model.decoder_norm(hidden) if isinstance(self.model, T5) else hidden


def count_heads(model: Transformer | T5) -> tuple[int, int]:
    """Return the numbers of heads in a layer of the encoder and of the decoder."""
    config = model.config
    if isinstance(config, T5Config):
        return config.num_heads, config.num_heads
    return config.encoder_attention_heads, config.decoder_attention_heads
