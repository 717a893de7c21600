"""One function on many items, of which the ranks of a launch compute one each at a time."""

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
    """Yield `function` of each item, in order; rank 0 calls this, and the others compute, too.

    Args:
        function: can be pickled, as items and results can.
        items: read as many at a time as there are ranks.
        precision: number format in which the function computes, fp32 or bf16.

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
    """Compute the first item of a portion, and gather the results of the others."""
    try:
        own = function(portion[0])
    except BaseException:
        ranks.gather((None, None))  # the others wait for it
        raise
    return results_of(ranks.gather((None, own)), ranks.hosts)[: len(portion)]


def serve_map(ranks: RankGroup, pickled: bytes) -> None:
    """Compute the items of this rank, until rank 0 has no more."""
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
