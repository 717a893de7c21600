"""Attributions of as many decisions as a limit on operations allows."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bertsmith.inspection.decisions import TextDecisions, head_of
from bertsmith.inspection.linear_words import share_logits
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
OPERATIONS = 2e11
"""Limit on the multiplications for all gradients. With it, a model of size base explains one
decision about 128 tokens, and a small model explains all decisions."""


def explain(loaded: LoadedDefinition[Any], decided: TextDecisions) -> list[Attribution | None]:
    """Attribute the logits of the first decisions to the tokens; None for the other decisions.

    The baseline has [MASK] in place of every word. The logit of a linear head is a sum over tokens.
    """
    linear = loaded.definition.linear if isinstance(loaded.definition, LinearTask) else None
    if linear is not None:
        return [*share_logits(linear, decided)]
    head = head_of(loaded)
    numbers = _by_importance(decided)[: _affordable(loaded.model, len(decided.shown.ids))]
    results: list[Attribution | None] = [None] * len(decided.decisions)
    if head is None or not numbers:
        return results
    shown = decided.shown
    reader = HeadReader(loaded.model, head, shown.ids, shown.type_ids)
    baseline = shown.hide_words(loaded.tokenizer.mask_id)
    targets = _targets(decided, numbers)
    max_points = count_points(_count_weights(loaded.model), len(shown.ids), len(targets))
    attributions = integrate_gradients(reader, baseline, targets, max_points)
    for number, result in zip(numbers, attributions, strict=True):
        results[number] = result
    return results


def _by_importance(decided: TextDecisions) -> list[int]:
    """List the decisions with a target; the likeliest word of each mask precedes other words."""
    numbers = [n for n, each in enumerate(decided.decisions) if each.target is not None]
    if decided.kind != "masks":
        return numbers
    ranks: Counter[int] = Counter()
    ranked = []
    for number in numbers:
        start = decided.decisions[number].start
        ranked.append((ranks[start], number))
        ranks[start] += 1
    return [number for _, number in sorted(ranked)]


def _targets(decided: TextDecisions, numbers: Sequence[int]) -> list[Target]:
    targets = (decided.decisions[number].target for number in numbers)
    return [target for target in targets if target is not None]


def _affordable(model: BertModel, num_tokens: int) -> int:
    return count_affordable(_count_weights(model), num_tokens, MAX_EXPLAINED)


def _count_weights(model: BertModel) -> int:
    # Layers that share weights are computed once for each layer.
    return sum(part.numel() for layer in model.layers for part in layer.parameters())


def count_affordable(num_weights: int, num_tokens: int, most: int) -> int:
    """Return how many decisions are explained, at least one and at most `most`.

    Args:
        num_weights: number of weights with which each token is multiplied.
    """
    per_decision = 2 * num_weights * num_tokens * MIN_INTEGRATION_POINTS
    return int(max(1, min(most, OPERATIONS // per_decision)))


def count_points(num_weights: int, num_tokens: int, num_targets: int) -> int:
    """Return the maximum number of points of a path at which gradients are computed.

    Args:
        num_weights: number of weights with which each token is multiplied.
    """
    affordable = OPERATIONS // (2 * num_weights * num_tokens * max(1, num_targets))
    return int(min(MAX_POINTS_OF_SMALL_MODEL, max(MAX_INTEGRATION_POINTS, affordable)))
