"""Importance of attention heads for an objective, by gradients.

Michel et al. 2019 ("Are Sixteen Heads Really Better than One?", section 4.1): a head's importance
is the mean over examples of |∂loss/∂mask| for a mask of 1 on its output, divided by the l2 norm
over the layer's heads. By the chain rule that gradient is the product of the head's output with its
own gradient, summed over the example's tokens, so that no mask is needed and one backward pass
serves all heads.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.last_layer import computing_every_token
from bertsmith.system.progress import tracked
from bertsmith.training.objective import Objective

Importance = NDArray[np.float64]
"""`[layers, heads]`; 0 for a head that was pruned earlier."""


def head_importance(model: BertModel, objective: Objective[BertModel, Batch]) -> Importance:
    """Compute all heads' importance over the first step, without dropout.

    How a step is divided into micro-batches changes nothing but rounding.
    """
    model = copy.deepcopy(model).eval()
    totals = [torch.zeros(len(model.config.heads_of(i))) for i in range(len(model.layers))]
    batches = objective.micro_batches(1)
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update(objective.counts(batch))
    for batch in tracked(batches, "weighing heads"):
        for layer, found in enumerate(_sensitivities(model, objective, batch, counts)):
            totals[layer] += found
    importance = np.zeros((len(totals), model.config.num_attention_heads))
    for layer, total in enumerate(totals):
        lengths = total / total.norm().clamp_min(torch.finfo(torch.float32).tiny)
        importance[layer, model.config.heads_of(layer)] = lengths.numpy()
    return importance


def _sensitivities(
    model: BertModel, objective: Objective[BertModel, Batch], batch: Batch, counts: Counter[str]
) -> list[Tensor]:
    """Compute |∂loss/∂mask| summed over examples; a list of [heads] per layer."""
    batch = batch.to(model.device)
    with computing_every_token(model), _recorded_contexts(model) as contexts:
        terms = objective.losses(model, batch)
    loss = torch.stack([term.sum.float() / counts[name] for name, term in terms.items()]).sum()
    gradients = torch.autograd.grad(loss, contexts)
    return [
        _by_example(context.detach() * gradient, batch, len(model.config.heads_of(layer)))
        for layer, (context, gradient) in enumerate(zip(contexts, gradients, strict=True))
    ]


def _by_example(products: Tensor, batch: Batch, num_heads: int) -> Tensor:
    """Sum [tokens, hidden] per head and example, then absolute sums over examples: [heads]."""
    heads = products[: batch.num_tokens].float().view(batch.num_tokens, num_heads, -1).sum(-1)
    sequences = torch.arange(batch.num_sequences)
    owners = batch.targets.get("example", sequences).to(heads.device)
    lengths = torch.tensor(batch.lengths, device=heads.device)
    sums = heads.new_zeros(int(owners.max()) + 1, num_heads)
    return sums.index_add(0, owners.repeat_interleave(lengths), heads).abs().sum(0).cpu()


@contextmanager
def _recorded_contexts(model: BertModel) -> Iterator[list[Tensor]]:
    """Record the context vectors of all layers in the block, [tokens, heads * head_size] each."""
    contexts: list[Tensor] = []

    def record(module: Any, inputs: tuple[Tensor, ...]) -> None:
        contexts.append(inputs[0])

    # Layers may share their attention, which then runs once for each of them.
    outputs = {layer.attention.output for layer in model.layers}
    hooks = [output.register_forward_pre_hook(record) for output in outputs]
    try:
        yield contexts
    finally:
        for hook in hooks:
            hook.remove()


def least_important(
    importance: Importance, config: BertConfig, num_pruned: int
) -> dict[int, list[int]]:
    """Choose the `num_pruned` least important heads by layer.

    Each layer keeps its best head.
    """
    layers = range(config.num_hidden_layers)
    best = {(i, max(config.heads_of(i), key=importance[i].__getitem__)) for i in layers}
    others = [place for place in all_heads(config) if place not in best]
    chosen: dict[int, list[int]] = {}
    for layer, head in sorted(sorted(others, key=importance.__getitem__)[:num_pruned]):
        chosen.setdefault(layer, []).append(head)
    return chosen


def all_heads(config: BertConfig) -> list[tuple[int, int]]:
    """List every head of a model as (layer, head)."""
    return [(i, head) for i in range(config.num_hidden_layers) for head in config.heads_of(i)]
