"""Hold out training examples: folds of a cross-validation, or a share of all examples.

The task of the examples puts each of them into a *group* and a *stratum* (`Task.fold_keys`). The
examples of a group, such as those with the same text, are held out together, so that none of them
is learned and scored. A stratum, such as the examples of one label, is spread evenly.
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.tasks.task import TaskDataset

MIN_GROUPS = 4
"""Fewest different examples of which a share can be held out."""


def split(dataset: TaskDataset[Any], num_folds: int, seed: int) -> list[TaskDataset[Any]]:
    """Divide the training examples into folds with equal shares of each stratum.

    Returns a `TaskDataset` per fold. Its `held_out` are the examples of the fold, and its `train`
    are all others. Examples of one group stay in one fold.

    Raises:
        ConfigError: fewer groups than folds.
    """
    groups = _group_examples(dataset, seed)
    if len(groups) < num_folds:
        raise ConfigError(
            f"{option('folds')}: found {num_folds}; with {len(groups)} different examples allowed "
            f"is 2 to {len(groups)}."
        )
    return [_with_held_out(dataset, set(fold)) for fold in folds_of(dataset, num_folds, seed)]


def folds_of(dataset: TaskDataset[Any], num_folds: int, seed: int) -> list[list[int]]:
    """Return the indices of the training examples in each fold, as `split` divides them.

    There are at most as many folds as groups, and none if there is only one group.
    """
    groups = _group_examples(dataset, seed)
    if len(groups) < 2:
        return []
    strata = [_stratum(dataset, example) for example in dataset.train]
    folds = _assign_to_folds(groups, strata, min(num_folds, len(groups)))
    return [sorted(fold) for fold in folds]


def hold_out(dataset: TaskDataset[Any], share: float, seed: int) -> TaskDataset[Any]:
    """Hold out a `share` of the training examples, about the same share of each stratum.

    At least two groups are held out. Examples of a group stay together. One group of each stratum
    is left to train on, unless too few groups would then remain to hold out.

    Raises:
        ConfigError: `share` is not between 0 and 1, or there are too few examples.
    """
    examples = dataset.train
    groups = _group_examples(dataset, seed)
    if not 0 < share < 1:
        raise SettingError(
            "eval",
            share,
            "a share above 0 and below 1, such as 0.1",
            "Or give eval=(X, y), or eval=None to train on all examples.",
        )
    if len(groups) < MIN_GROUPS:
        raise ConfigError(
            f"eval: fit sets {100 * share:.3g} % of the examples aside to choose the best weights "
            f"by, and needs at least {MIN_GROUPS} {dataset.task.group_nouns} for that; X has "
            f"{len(groups)}. Pass more, or eval=(X, y), or eval=None to train on all of them."
        )
    # A group counts for the stratum of its first example.
    groups.sort(key=lambda group: _stratum(dataset, examples[group[0]]))
    strata = [_stratum(dataset, examples[group[0]]) for group in groups]
    # All groups but the first of each stratum, which is left to train on.
    candidates = [index for index in range(1, len(groups)) if strata[index] == strata[index - 1]]
    count = min(max(2, round(share * len(groups))), len(groups) - 1)
    if len(candidates) < count:
        candidates = list(range(len(groups)))
    # The candidates are sorted by stratum, so evenly spaced ones are a fair share of each stratum.
    chosen = {candidates[int((number + 0.5) * len(candidates) / count)] for number in range(count)}
    return _with_held_out(dataset, {example for index in chosen for example in groups[index]})


def _with_held_out(dataset: TaskDataset[Any], indices: Set[int]) -> TaskDataset[Any]:
    """Hold out the training examples at `indices`.

    A task may read the same file in another form for evaluation. `dataset.held_out` then has all
    examples in this form, and those that are held out are taken from there, by their rows.
    """
    read_for_evaluation = {example.row: example for example in dataset.held_out}
    train, held_out = [], []
    for index, example in enumerate(dataset.train):
        if index in indices:
            held_out.append(read_for_evaluation.get(example.row, example))
        else:
            train.append(example)
    return replace(dataset, train=train, held_out=held_out)


def _group_examples(dataset: TaskDataset[Any], seed: int) -> list[list[int]]:
    """List the groups of training examples, each as its indices, in random order."""
    groups: dict[Any, list[int]] = {}
    for index in np.random.default_rng(seed).permutation(len(dataset.train)).tolist():
        group, _ = dataset.task.fold_keys(dataset.train[index])
        groups.setdefault(group, []).append(index)
    return list(groups.values())


def _stratum(dataset: TaskDataset[Any], example: Any) -> str:
    """Return the stratum of an example as text, so that any strata can be sorted."""
    return str(dataset.task.fold_keys(example)[1])


def _assign_to_folds(
    groups: Sequence[list[int]], strata: Sequence[str], num_folds: int
) -> list[set[int]]:
    """Divide the indices of examples into folds, so that strata are balanced.

    A group goes to the fold that has the fewest examples of its stratum so far. Of several such
    folds, it goes to the smallest. Large groups go first, so that small ones can even out the
    folds.

    Args:
        groups: the indices of the examples of each group.
        strata: the stratum of each example.
    """
    folds: list[set[int]] = [set() for _ in range(num_folds)]
    stratum_counts = [Counter[str]() for _ in folds]
    for group in sorted(groups, key=lambda group: (strata[group[0]], -len(group))):
        stratum = strata[group[0]]
        fold = min(range(num_folds), key=lambda i: (stratum_counts[i][stratum], len(folds[i])))
        stratum_counts[fold].update(strata[index] for index in group)
        folds[fold].update(group)
    return folds
