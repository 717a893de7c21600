"""Numbers of a model's parameters by component, such as "attention" or "word embedding".

The model itself is built without memory (on torch's "meta" device) and its parameters are counted.
A parameter that several layers share counts once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import nn

from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import GENERATOR, new_pair
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.meta_init import on_meta_device
from bertsmith.model.pretraining_catalog import OBJECTIVES

PARAMETER_FORMULA = "V·H + 512·H + 2·H + 12·L·H²"
"""The usual estimate of BERT's parameters, for V tokens, 512 positions, 2 segments, and L layers of
width H: 4·H² of a layer are in attention and 8·H² in feed-forward."""

RELEASED_VOCABULARY = 30522
"""Vocabulary size of the released English models."""

WORD = "word embedding"
PROJECTION = "embedding projection"
ATTENTION = "attention"
FEED_FORWARD = "feed-forward"
LAYER_NORMS = "LayerNorms"
RECURRENT_LAYERS = "recurrent layers"
IN_LAYERS = (ATTENTION, FEED_FORWARD, LAYER_NORMS, RECURRENT_LAYERS)
IN_EMBEDDINGS = (WORD, "position embedding", "segment embedding", "embedding LayerNorm", PROJECTION)
MASKED_LM = "masked_lm head"
COMPONENTS = (
    (r"embeddings\.word\.", WORD),
    (r"embeddings\.position\.", "position embedding"),
    (r"embeddings\.token_type\.", "segment embedding"),
    (r"embeddings\.norm\.", "embedding LayerNorm"),
    (r"embeddings\.", PROJECTION),
    (r"layers\.\d+\..*norm\.", LAYER_NORMS),
    (r"final_norm\.", "final LayerNorm"),
    (r"layers\.\d+\.(cell|reverse|left_to_right|right_to_left)\.", RECURRENT_LAYERS),
    (r"layers\.\d+\.attention\.", ATTENTION),
    (r"layers\.\d+\.feed_forward\.", FEED_FORWARD),
    (r"heads\.(\w+)\.", r"\1 head"),
    (r"(\w+)\.", r"\1"),
)
"""Patterns of parameter names and their components; the first pattern that matches decides."""


@dataclass(frozen=True)
class Component:
    """Numbers of parameters of one component.

    `matrices` (with embeddings) and `vectors` count each parameter once. `used` counts a matrix as
    often as a forward pass uses it, so once for every layer that shares it. `per_layer` are the
    parameters that a layer uses, on average over the layers, whether shared or not.
    """

    matrices: int = 0
    vectors: int = 0
    used: int = 0
    per_layer: int = 0

    @property
    def total(self) -> int:
        return self.matrices + self.vectors


def _component_of(name: str) -> str:
    """Map a parameter's name to its component.

    >>> _component_of("layers.3.attention_norm.weight"), _component_of("heads.masked_lm.bias")
    ('LayerNorms', 'masked_lm head')
    """
    for pattern, component in COMPONENTS:
        if match := re.match(pattern, name):
            return match.expand(component)
    return name


def pretraining_model(config: BertConfig) -> BertModel:
    """Build the model that pre-training trains for a config, on the meta device."""
    family = family_named(config.model_type)
    with on_meta_device():
        if OBJECTIVES[family.objective].has_generator:
            return new_pair(config)
        return BertModel(config, build_heads(config, family.first_heads))


def count_parameters(model: nn.Module) -> dict[str, Component]:
    """Count a model's parameters by component, in the model's order."""
    uncounted = {id(parameter) for parameter in model.parameters()}
    num_layers = max(1, len(getattr(model, "layers", ())))
    counts: dict[str, Component] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        component = _component_of(name)
        count = parameter.numel()
        before = counts.get(component, Component())
        is_new = id(parameter) in uncounted
        is_matrix = parameter.ndim > 1
        uncounted.discard(id(parameter))
        counts[component] = Component(
            matrices=before.matrices + (count if is_new and is_matrix else 0),
            vectors=before.vectors + (count if is_new and not is_matrix else 0),
            used=before.used + (count if is_matrix else 0),
            per_layer=before.per_layer + (count if component in IN_LAYERS else 0),
        )
    return {
        component: replace(total, per_layer=total.per_layer // num_layers)
        for component, total in counts.items()
    }


def is_head(component: str) -> bool:
    """Return whether a component is a head, or ELECTRA's generator; the pooler is neither."""
    return component.endswith(" head") or component == GENERATOR


def sum_parameters(counts: Mapping[str, Component], *, heads: bool = True) -> int:
    """Sum the parameters of all components; without `heads`, only of the encoder and its pooler."""
    return sum(counted.total for name, counted in counts.items() if heads or not is_head(name))


def evaluate_formula(config: BertConfig) -> int:
    """Evaluate `PARAMETER_FORMULA` for a config.

    >>> evaluate_formula(BertConfig.from_preset("base", vocab_size=30000))
    108369408
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    return (config.vocab_size + 512 + 2) * width + 12 * layers * width**2


def list_beyond_formula(counts: Mapping[str, Component], config: BertConfig) -> dict[str, int]:
    """List the parameters of the encoder that `PARAMETER_FORMULA` leaves out, by their component.

    A count is negative where the formula counts too many.
    """
    width, layers = config.hidden_size, config.num_hidden_layers
    assumed = {
        WORD: ("V·H", config.vocab_size * width),
        "position embedding": ("512·H", 512 * width),
        "segment embedding": ("2·H", 2 * width),
        ATTENTION: ("4·L·H²", 4 * layers * width**2),
        FEED_FORWARD: ("8·L·H²", 8 * layers * width**2),
    }
    differences: dict[str, int] = {}
    for name, (term, count) in assumed.items():
        differences[f"{name} beside {term}"] = counts.get(name, Component()).matrices - count
    for name, counted in counts.items():
        if is_head(name):
            continue
        if name in (ATTENTION, FEED_FORWARD):
            differences[f"biases of {name}"] = counted.vectors
        elif name == LAYER_NORMS:
            differences[f"{name} of the layers"] = counted.total
        elif name not in assumed:
            differences[name] = counted.total
    return {name: count for name, count in differences.items() if count}
