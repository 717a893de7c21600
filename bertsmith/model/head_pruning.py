"""Pruning of attention heads.

A pruned head's rows leave query, key and value, and its columns the output projection, which saves
parameters and time. The folder is that of transformers 4: `pruned_heads` in config.json names the
heads, and weights are stored without them. transformers 5 cannot open such a folder. With
`zero_heads` matrices keep their shape: every version opens them, and nothing is saved.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from bertsmith.errors import ConfigError
from bertsmith.model.attention import SelfAttention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig

Heads = Mapping[int, Collection[int]]
"""Heads by the number of their layer, both from 0, as numbered before any pruning."""


def prune_heads(model: BertModel, heads: Heads) -> BertModel:
    """Return a copy of a model without these heads.

    Some of them may be gone already.

    Raises:
        ConfigError: the model lacks a head, a layer would lose all, or layers share attention.
    """
    config = with_pruned(model, heads)
    smaller = copy.deepcopy(model)
    smaller.config = config
    for number in heads:
        kept = config.heads_of(number)
        places = [i for i, head in enumerate(model.config.heads_of(number)) if head in kept]
        narrow(smaller.layers[number].attention, places)  # type: ignore[arg-type]
    return smaller


def zero_heads(model: BertModel, heads: Heads) -> BertModel:
    """Return a copy in which these heads contribute nothing; shapes stay.

    Raises:
        ConfigError: as `prune_heads`.
    """
    with_pruned(model, heads)
    silent = copy.deepcopy(model)
    for number, pruned in heads.items():
        places = [i for i, head in enumerate(model.config.heads_of(number)) if head in pruned]
        silence(silent.layers[number].attention, places)  # type: ignore[arg-type]
    return silent


def with_pruned(model: BertModel, heads: Heads) -> BertConfig:
    """Return a model's config with these heads pruned too."""
    if len({layer.attention for layer in model.layers}) < len(model.layers):
        raise ConfigError(
            "the layers of this model share their attention, so none can lose heads by itself. "
            "Choose a model whose layers have weights of their own."
        )
    pruned = dict(model.config.pruned_heads)
    for number, more in heads.items():
        pruned[number] = sorted({*pruned.get(number, ()), *more})
    return replace(
        model.config, pruned_heads={number: gone for number, gone in pruned.items() if gone}
    )


def columns(attention: SelfAttention, places: Collection[int]) -> Tensor:
    """Return the indices of these heads in a context vector.

    Places count the heads that are present.
    """
    size = attention.output.in_features // attention.num_heads
    firsts = torch.tensor(list(places), dtype=torch.int64) * size
    return (firsts[:, None] + torch.arange(size)).flatten()


def narrow(attention: SelfAttention, places: Collection[int]) -> None:
    """Keep only the heads at `places` of an attention layer."""
    kept = columns(attention, places)
    width = attention.output.in_features
    rows = torch.cat([kept + part * width for part in range(3)])  # query, key, value
    qkv, output = attention.qkv, attention.output
    attention.qkv = linear(qkv.weight[rows], qkv.bias[rows])
    attention.output = linear(output.weight[:, kept], output.bias)
    attention.num_heads = len(places)


def silence(attention: SelfAttention, places: Collection[int]) -> None:
    """Zero the output of the heads at `places` of an attention layer."""
    with torch.no_grad():
        attention.output.weight[:, columns(attention, places)] = 0.0


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Build a linear layer from copies of these values."""
    made = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    made.weight = nn.Parameter(weight.detach().clone())
    made.bias = nn.Parameter(bias.detach().clone())
    return made
