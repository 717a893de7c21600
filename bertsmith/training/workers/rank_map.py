"""Parallel map over ranks: each computes one item at a time."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import torch

from bertsmith.errors import BertsmithError
from bertsmith.model.attention_paths import attention_paths
from bertsmith.system.hardware import ComputeChoices, compute_choices, keep_computing_as
from bertsmith.system.matrix_products import Precision
from bertsmith.system.threads import usable_threads
from bertsmith.training.workers.rank_errors import results_of, sendable
from bertsmith.training.workers.rank_group import RankGroup

MAP = "map"
NEXT_ITEMS = "next items"
END_MAP = "end of map"

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_on_ranks(
    ranks: RankGroup,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    precision: Precision,
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order. Rank 0 calls this; the others compute, too.

    Args:
        function: can be pickled, like its items and results.
        items: are read one per rank at a time.
        precision: the number format that the function computes in, fp32 or bf16.

    Raises:
        TrainingError: a rank has ended.
    """
    iterator = iter(items)
    choices = compute_choices(precision, attention_paths())
    ranks.tell((MAP, pickle.dumps((function, choices))))
    try:
        while portion := list(islice(iterator, ranks.num_ranks)):
            ranks.tell((NEXT_ITEMS,))
            missing = ranks.num_ranks - len(portion)
            ranks.scatter([*((item,) for item in portion), *[None] * missing])
            yield from _answers(ranks, function, portion)
    finally:
        if not ranks.is_broken:
            ranks.tell((END_MAP,))


def _answers(
    ranks: RankGroup, function: Callable[[Item], Result], portion: list[Item]
) -> list[Result]:
    """Compute the first item of a portion, and gather the other ranks' results."""
    try:
        own = function(portion[0])
    except BaseException:
        ranks.gather((None, None))  # the other ranks wait until all have answered
        raise
    return results_of(ranks.gather((None, own)), ranks.hosts)[: len(portion)]


def serve_map(ranks: RankGroup, pickled: bytes) -> None:
    """Compute this rank's items, until rank 0 has no more."""
    function: Callable[[Any], Any] | None = None
    problem: BertsmithError | None = None
    choices: ComputeChoices
    if torch.cuda.is_available():
        torch.cuda.set_device(ranks.local_rank)
    try:
        function, choices = pickle.loads(pickled)
        keep_computing_as(replace(choices, threads=usable_threads()))
    except Exception as error:
        problem = sendable(error)
    while ranks.hear()[0] == NEXT_ITEMS:
        item = ranks.scatter()
        result = None
        if item is not None and function is not None:
            try:
                result = function(*item)
            except Exception as error:
                problem = sendable(error)
        ranks.gather((problem, result))
