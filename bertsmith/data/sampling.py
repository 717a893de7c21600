"""Draw some of the examples at random; labels keep their shares if that is wanted."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from bertsmith.data.examples import Example

Item = TypeVar("Item")


def random_sample(examples: Sequence[Item], size: int | None, seed: int) -> list[Item]:
    """Draw `size` examples at random, and keep their order; None takes all."""
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[index] for index in sorted(order[:size].tolist())]


def stratified_sample(examples: Sequence[Example], size: int, seed: int) -> list[Example]:
    """Draw `size` examples so that each label keeps its share; keep their order.

    Every label keeps at least one example as long as `size` allows. This is Adams' method of
    apportionment: the n examples of a label, in random order, have the ranks 0 / n, 1 / n and so
    on, and the lowest ranks of all labels are taken.
    """
    sizes = Counter(example.label for example in examples)
    seen: Counter[str | None] = Counter()
    ranks: list[tuple[float, int]] = []
    for index in np.random.default_rng(seed).permutation(len(examples)).tolist():
        label = examples[index].label
        ranks.append((seen[label] / sizes[label], index))
        seen[label] += 1
    chosen = sorted(ranks, key=lambda rank: rank[0])[:size]
    return [examples[index] for index in sorted(index for _, index in chosen)]
