"""Operations and bytes of a training step, computed from a model's shape before it runs.

Operations are those of matrix products, a multiply-add being two, as the packed engine computes
them: for real tokens, with vocabulary logits at predicted positions only. Other operations, such as
LayerNorm and the optimizer, are a few per number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

import torch

from bertsmith.data.batches import Batch
from bertsmith.model.accounting import (
    ATTENTION,
    FEED_FORWARD,
    MASKED_LM,
    POOLER,
    PROJECTION,
    WORD,
    Component,
    count_parameters,
    is_head,
)
from bertsmith.model.bert import BertModel
from bertsmith.model.blocks import BlockLayout
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.model.masked_lm_loss import MAX_LOGITS
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.system.matrix_products import Precision

PER_SEQUENCE = (POOLER, "next_sentence head", "sentence_order head", "classify head",
                "multi_label head", "regress head", "choose head")  # fmt: skip
"""Components that are computed once per sequence."""


@dataclass(frozen=True)
class Workload:
    """The input size of a model, in batches or in one step.

    `looks` counts pairs of tokens in attention: the sum of the squared lengths of the sequences.
    `predicted` counts the positions with vocabulary logits.
    """

    tokens: float = 0.0
    looks: float = 0.0
    predicted: float = 0.0
    sequences: float = 0.0


def sum_work(works: Iterable[Workload], factor: float) -> Workload:
    """Sum the counts of all inputs, times `factor`."""
    return Workload(*(factor * sum(counts) for counts in zip(*map(astuple, works), strict=True)))


def real_work(batch: Batch, predicted: int) -> Workload:
    """Count a batch by its real tokens."""
    looks = sum(length**2 for length in batch.lengths)
    return Workload(batch.num_tokens, looks, predicted, batch.num_sequences)


def computed_work(batch: Batch, predicted: int) -> Workload:
    """Count a batch as a CPU computes it, padded to standard sizes."""
    blocks = BlockLayout(batch.lengths, torch.device("cpu")).view().blocks
    return Workload(
        rounded_up(batch.num_tokens),
        sum(block.num_rows * block.length**2 for block in blocks),
        rounded_up(predicted) if predicted else 0,
        batch.num_sequences,
    )


def _num_heads(config: BertConfig) -> int:
    return config.num_attention_heads * config.num_layers


def training_flops(
    counts: Mapping[str, Component], config: BertConfig, work: Workload
) -> dict[str, float]:
    """Count the operations of a forward and a backward pass, by purpose.

    Forward, a matrix costs two operations per number and row, which for BERT's layers are `24·H²`
    per token and layer; attention scores and their weighted means cost 4 operations per number of a
    head and pair of tokens, `4·H` per layer. Backward costs twice as much: gradients of inputs and
    of weights.
    """
    names = {name: each.used for name, each in counts.items() if name != WORD}
    per_token = sum(
        used
        for name, used in names.items()
        if name in (ATTENTION, FEED_FORWARD, PROJECTION)
        or (is_head(name) and name not in (MASKED_LM, GENERATOR, *PER_SEQUENCE))
    )
    per_sequence = sum(used for name, used in names.items() if name in PER_SEQUENCE)
    decoder = counts[WORD].matrices if MASKED_LM in counts else 0
    vocabulary = names.get(MASKED_LM, 0) + decoder
    # The gradient of the decoder's bias is a matrix product too.
    bias = 2 * work.predicted * config.vocab_size if decoder else 0
    looks = 4 * config.head_size * _num_heads(config) * work.looks
    return {
        "layers": 6 * per_token * work.tokens,
        "attention": 3 * looks,
        "vocabulary": 6 * vocabulary * work.predicted + bias,
        "sequences": 6 * per_sequence * work.sequences,
    }


def flops_of(model: BertModel, work: Workload) -> dict[str, float]:
    """Count `training_flops` of a model and its companions, by purpose."""
    flops = training_flops(count_parameters(model), model.config, work)
    for name, companion in model.companions.items():
        theirs = training_flops(count_parameters(companion), companion.config, work)
        for kind in ("layers", "attention"):
            flops[f"{name}'s {kind}"] = theirs.pop(kind)
        flops = {kind: count + theirs.get(kind, 0.0) for kind, count in flops.items()}
    return flops


@dataclass(frozen=True)
class Memory:
    """Peak bytes of a run.

    `weights` are fp32, with a copy in the computing precision; `optimizer` holds both moments;
    `gradients` is one set per process, in fp32 where several are summed. `activations` are those of
    one process in its largest batch, with the logits and gradients that exist beside them.
    """

    weights: int
    optimizer: int
    gradients: int
    activations: int
    num_processes: int

    @property
    def shared(self) -> int:
        """The bytes that exist once, in memory shared by all processes."""
        return self.weights + self.optimizer + self.gradients

    @property
    def everything(self) -> int:
        """All bytes except the processes' own: interpreter, libraries, machine code."""
        return self.shared + self.num_processes * self.activations


def memory(
    model: BertModel,
    work: Workload,
    precision: Precision,
    num_processes: int,
    *,
    size: int,
    is_fused: bool,
    sums_gradients: bool,
) -> Memory:
    """Compute the memory of training: model-sized arrays and activations.

    Args:
        work: the largest batch that a process computes at once.
        size: the length of an array of all parameters.
        is_fused: whether attention keeps no scores.
        sums_gradients: whether gradients are kept in fp32, since several are summed.
    """
    configs = [model.config, *(each.config for each in model.companions.values())]
    width = 2 if precision == "bf16" else 4
    return Memory(
        weights=size * (4 + (width if width < 4 else 0)),
        optimizer=8 * size,
        gradients=(4 if sums_gradients else width) * size * num_processes,
        activations=round(
            sum(saved_activations(each, work, width, is_fused=is_fused) for each in configs)
            + _vocabulary_bytes(model.config, work, width)
        ),
        num_processes=num_processes,
    )


def saved_activations(config: BertConfig, work: Workload, width: int, *, is_fused: bool) -> float:
    """Count the bytes that layers save for the backward pass.

    At `width` bytes a number, each layer saves per token vectors of H numbers: its input, query,
    key and value, the context, two inputs of LayerNorms and the first one's output, and with
    dropout two masks (10, else 8); also input and output of the activation function (with gates
    two more numbers, `kept_inner`). Each head saves its weight for each pair of tokens, and with
    dropout a mask and the product of both.
    """
    has_dropout = config.hidden_dropout_prob > 0
    vectors = (10 if has_dropout else 8) * config.hidden_size
    vectors += config.kept_inner * config.intermediate_size
    scores = 0 if is_fused else (3 if config.attention_probs_dropout_prob > 0 else 1)
    layers = config.num_layers * work.tokens * vectors
    looks = _num_heads(config) * work.looks * scores
    embeddings = work.tokens * config.hidden_size * (2 if has_dropout else 1)
    return width * (layers + looks + embeddings)


def _vocabulary_bytes(config: BertConfig, work: Workload, width: int) -> float:
    """Count the bytes of concurrent logits and the word embedding's gradient."""
    words = config.vocab_size
    at_once = min(work.predicted, max(1, MAX_LOGITS // words))
    in_parts = work.predicted > at_once
    gradient = words * config.hidden_size * (4 + width if in_parts else 2 * width)
    return width * at_once * words + gradient
