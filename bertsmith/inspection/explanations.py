"""The words that count: attributions of as many decisions as a limit on operations allows.

A decision is a part of a prediction, such as a label. Its target is the logit from which it comes,
and its attribution says how much each token adds to this logit.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bertsmith.inspection.decisions import TextDecisions, head_name
from bertsmith.inspection.linear_words import split_logits
from bertsmith.inspection.saliency import (
    MAX_INTEGRATION_POINTS,
    MAX_POINTS_OF_SMALL_MODEL,
    MIN_INTEGRATION_POINTS,
    Attribution,
    HeadReader,
    Target,
    integrate_gradients,
)
from bertsmith.model.bert import BertModel
from bertsmith.tasks.linear_classification import LinearTask
from bertsmith.tasks.predictor import LoadedDefinition

MAX_EXPLAINED = 8
"""Largest number of decisions that are explained."""
MAX_MULTIPLICATIONS = 2e11
"""Limit on the multiplications for all gradients. With it, a model of size base explains one
decision about 128 tokens, and a small model explains all decisions."""


def explain(loaded: LoadedDefinition[Any], decided: TextDecisions) -> list[Attribution | None]:
    """Attribute the logits of the first decisions to the tokens; None for the other decisions.

    The baseline has [MASK] in place of every word. A linear head, a logistic regression on a frozen
    encoder, needs neither a baseline nor gradients: its logits are sums over the tokens
    (`split_logits`).
    """
    linear = loaded.definition.linear if isinstance(loaded.definition, LinearTask) else None
    if linear is not None:
        return [*split_logits(linear, decided)]
    head = head_name(loaded)
    shown = decided.shown
    num_weights, num_tokens = _count_weights(loaded.model), len(shown.ids)
    num_explained = count_explained(num_weights, num_tokens, MAX_EXPLAINED)
    indices = _by_importance(decided)[:num_explained]
    results: list[Attribution | None] = [None] * len(decided.decisions)
    if head is None or not indices:
        return results
    reader = HeadReader(loaded.model, head, shown.ids, shown.type_ids)
    baseline = shown.mask_words(loaded.tokenizer.mask_id)
    targets = _targets(decided, indices)
    max_points = count_points(num_weights, num_tokens, len(targets))
    attributions = integrate_gradients(reader, baseline, targets, max_points)
    for index, result in zip(indices, attributions, strict=True):
        results[index] = result
    return results


def _by_importance(decided: TextDecisions) -> list[int]:
    """List the indices of the decisions that have a target.

    Words for [MASK] are ordered by their rank: first the likeliest word for each [MASK].
    """
    decisions = enumerate(decided.decisions)
    indices = [index for index, decision in decisions if decision.target is not None]
    if decided.kind != "masks":
        return indices
    # The words of one mask are at one place, and the likeliest of them come first.
    num_seen: Counter[tuple[int | None, int]] = Counter()
    ranked = []
    for index in indices:
        decision = decided.decisions[index]
        place = decision.part, decision.start
        ranked.append((num_seen[place], index))
        num_seen[place] += 1
    return [index for _, index in sorted(ranked)]


def _targets(decided: TextDecisions, indices: Sequence[int]) -> list[Target]:
    targets = (decided.decisions[index].target for index in indices)
    return [target for target in targets if target is not None]


def _count_weights(model: BertModel) -> int:
    # Weights that several layers share count for each of these layers, as each multiplies by them.
    return sum(part.numel() for layer in model.layers for part in layer.parameters())


def count_explained(num_weights: int, num_tokens: int, limit: int) -> int:
    """Return how many decisions are explained, at least one and at most `limit`.

    Args:
        num_weights: number of weights by which each token's vectors are multiplied.
    """
    # Two passes: forward, and backward, where only the tokens' vectors get gradients.
    per_decision = 2 * num_weights * num_tokens * MIN_INTEGRATION_POINTS
    return int(max(1, min(limit, MAX_MULTIPLICATIONS // per_decision)))


def count_points(num_weights: int, num_tokens: int, num_targets: int) -> int:
    """Return the maximum number of points of a path at which gradients are computed.

    Args:
        num_weights: number of weights by which each token's vectors are multiplied.
    """
    # A small model can afford more than `MAX_INTEGRATION_POINTS`, which every other model gets.
    affordable = MAX_MULTIPLICATIONS // (2 * num_weights * num_tokens * max(1, num_targets))
    return int(min(MAX_POINTS_OF_SMALL_MODEL, max(MAX_INTEGRATION_POINTS, affordable)))
