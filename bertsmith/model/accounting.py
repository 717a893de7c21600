"""Parameters, operations and bytes of a model, computed from its shape before it runs.

Parameters are those of the model itself, built without memory (torch's "meta" device); each counts
once, however often it is used. Operations are those of matrix products, a multiply-add being two,
as the packed engine computes them: for real tokens, with vocabulary logits at predicted positions
only. Other operations, such as LayerNorm and the optimizer, are a few per number.
"""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import torch
from torch import nn

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.blocks import BlockLayout
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import new_pair
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.masked_lm_loss import MAX_LOGITS
from bertsmith.model.meta_init import skeleton
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.system.matrix_products import Precision

FORMULA = "V·H + 512·H + 2·H + 12·L·H²"
"""The usual parameter count: a vocabulary of V, 512 positions and 2 segments, L layers of width H.
"""

RELEASED_VOCABULARY = 30522
"""Vocabulary size of the released English models."""

WORD, PROJECTION, POOLER = "word embedding", "embedding projection", "pooler"
ATTENTION, FEED_FORWARD, LAYER_NORMS = "attention", "feed-forward", "LayerNorms"
IN_LAYERS = (ATTENTION, FEED_FORWARD, LAYER_NORMS)
IN_EMBEDDINGS = (WORD, "position embedding", "segment embedding", "embedding LayerNorm", PROJECTION)
MASKED_LM = "masked_lm head"
GENERATOR = "generator"
PER_SEQUENCE = (POOLER, "next_sentence head", "sentence_order head", "classify head",
                "multi_label head", "regress head", "choose head")  # fmt: skip
"""Components that are computed once per sequence."""

COMPONENTS = (
    (r"embeddings\.word\.", WORD),
    (r"embeddings\.position\.", "position embedding"),
    (r"embeddings\.token_type\.", "segment embedding"),
    (r"embeddings\.norm\.", "embedding LayerNorm"),
    (r"embeddings\.", PROJECTION),
    (r"layers\.\d+\..*norm\.", LAYER_NORMS),
    (r"final_norm\.", "final LayerNorm"),
    (r"layers\.\d+\.attention\.", ATTENTION),
    (r"layers\.\d+\.feed_forward\.", FEED_FORWARD),
    (r"heads\.(\w+)\.", r"\1 head"),
    (r"(\w+)\.", r"\1"),
)
"""Patterns of parameter names and their components; the first match counts."""


@dataclass(frozen=True)
class Component:
    """Parameters of one kind, in `matrices` (with embeddings) and `vectors`, each once.

    `used` counts a matrix once per multiplication in a forward pass, `per_layer` all parameters
    that one layer uses; both differ from the rest where layers share weights.
    """

    matrices: int = 0
    vectors: int = 0
    used: int = 0
    per_layer: int = 0

    @property
    def total(self) -> int:
        """The number of parameters of the kind."""
        return self.matrices + self.vectors


def component_of(name: str) -> str:
    """Map a parameter's name to its component.

    >>> component_of("layers.3.attention_norm.weight"), component_of("heads.masked_lm.bias")
    ('LayerNorms', 'masked_lm head')
    """
    for pattern, component in COMPONENTS:
        if found := re.match(pattern, name):
            return found.expand(component)
    return name


def pretraining_model(config: BertConfig) -> BertModel:
    """Build the model that pre-training makes of a config, without memory."""
    family = family_named(config.model_type)
    with skeleton():
        if family.objective == "replaced_token":
            return new_pair(config)
        return BertModel(config, build_heads(config, family.first_heads))


def count_parameters(model: nn.Module) -> dict[str, Component]:
    """Count a model's parameters by component, in the model's order."""
    once = {id(parameter) for parameter in model.parameters()}
    layers = max(1, len(getattr(model, "layers", ())))
    counts: dict[str, Component] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        kind, count = component_of(name), parameter.numel()
        before = counts.get(kind, Component())
        is_new, is_matrix = id(parameter) in once, parameter.ndim > 1
        once.discard(id(parameter))
        counts[kind] = Component(
            matrices=before.matrices + is_new * is_matrix * count,
            vectors=before.vectors + is_new * (not is_matrix) * count,
            used=before.used + is_matrix * count,
            per_layer=before.per_layer + (count if kind in IN_LAYERS else 0),
        )
    return {
        kind: Component(each.matrices, each.vectors, each.used, each.per_layer // layers)
        for kind, each in counts.items()
    }


def is_head(component: str) -> bool:
    """Return whether a component is a head or generator, not the encoder.

    The encoder includes the pooler.
    """
    return component.endswith(" head") or component == GENERATOR


def total(counts: Mapping[str, Component], *, heads: bool = True) -> int:
    """Sum the parameters, or those of the encoder with its pooler."""
    return sum(each.total for name, each in counts.items() if heads or not is_head(name))


def formula(config: BertConfig) -> int:
    """Evaluate `FORMULA` for a config.

    >>> formula(BertConfig.from_preset("base", vocab_size=30000))
    108369408
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    return (config.vocab_size + 512 + 2) * width + 12 * layers * width**2


def beyond_formula(counts: Mapping[str, Component], config: BertConfig) -> dict[str, int]:
    """List the encoder's parameters that `FORMULA` misses, or overcounts (negative)."""
    width, layers = config.hidden_size, config.num_hidden_layers
    assumed = {
        WORD: ("V·H", config.vocab_size * width),
        "position embedding": ("512·H", 512 * width),
        "segment embedding": ("2·H", 2 * width),
        ATTENTION: ("4·L·H²", 4 * layers * width**2),
        FEED_FORWARD: ("8·L·H²", 8 * layers * width**2),
    }
    lines: dict[str, int] = {}
    for name, (term, count) in assumed.items():
        lines[f"{name} beside {term}"] = counts.get(name, Component()).matrices - count
    for name, each in counts.items():
        if is_head(name):
            continue
        if name in (ATTENTION, FEED_FORWARD):
            lines[f"biases of {name}"] = each.vectors
        elif name not in assumed:
            lines[f"{name} of the layers" if name == LAYER_NORMS else name] = each.total
    return {name: count for name, count in lines.items() if count}


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

    def __add__(self, other: "Workload") -> "Workload":
        return Workload(
            self.tokens + other.tokens,
            self.looks + other.looks,
            self.predicted + other.predicted,
            self.sequences + other.sequences,
        )

    def times(self, factor: float) -> "Workload":
        """Multiply all counts by `factor`."""
        return Workload(*(factor * count for count in astuple(self)))


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
    """Count the attention heads of all layers, without pruned ones."""
    return sum(len(config.heads_of(layer)) for layer in range(config.num_hidden_layers))


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
    found = training_flops(count_parameters(model), model.config, work)
    for name, companion in model.companions.items():
        theirs = training_flops(count_parameters(companion), companion.config, work)
        for kind in ("layers", "attention"):
            found[f"{name}'s {kind}"] = theirs.pop(kind)
        found = {kind: count + theirs.get(kind, 0.0) for kind, count in found.items()}
    return found


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
    layers = config.num_hidden_layers * work.tokens * vectors
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
