"""Parallel map over ranks (machines or GPUs): each computes one item at a time.

Commands that predict, such as `bertsmith predict` and `embed`, use it on several ranks.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import torch

from bertsmith.errors import BertsmithError
from bertsmith.model.attention_paths import attention_paths
from bertsmith.system.hardware import ComputeChoices, current_choices, keep_computing_as
from bertsmith.system.matrix_products import Precision
from bertsmith.system.threads import usable_threads
from bertsmith.training.workers.rank_errors import results_of, sendable
from bertsmith.training.workers.rank_group import RankGroup

MAP = "map"
NEXT_ITEMS = "next items"
"""Names of the requests that rank 0 sends: a function, then items for it, one for each rank."""

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
        items: are read only as they are needed, one for each rank at a time.
        precision: the number format that the function computes in, fp32 or bf16.

    Raises:
        TrainingError: a rank has ended.
        BertsmithError: the function failed on a rank; the message names it.
    """
    iterator = iter(items)
    # All ranks compute as rank 0 does, in its precision and its way of attention, so that they
    # round alike.
    choices = current_choices(precision, attention_paths())
    ranks.broadcast((MAP, pickle.dumps((function, choices))))
    while portion := list(islice(iterator, ranks.num_ranks)):
        ranks.broadcast((NEXT_ITEMS,))
        missing = ranks.num_ranks - len(portion)
        # An item is sent in a tuple, since None says that there is none.
        ranks.scatter([*((item,) for item in portion), *[None] * missing])
        yield from _answers(ranks, function, portion)


def _answers(
    ranks: RankGroup, function: Callable[[Item], Result], portion: list[Item]
) -> list[Result]:
    """Compute the first item of a portion, and return it with the results of the other ranks."""
    try:
        own = function(portion[0])
    except BaseException:
        # The other ranks wait until all have answered with an error (or None) and a result.
        ranks.gather((None, None))
        raise
    return results_of(ranks.gather((None, own)), ranks.hosts)[: len(portion)]


class MappedFunction:
    """The function that rank 0 maps over items, as another rank has it."""

    def __init__(self, ranks: RankGroup) -> None:
        self._ranks = ranks
        self._function: Callable[[Any], Any] | None = None
        self._error: BertsmithError | None = None

    def load(self, pickled: bytes) -> None:
        """Unpickle a function from rank 0; an error is sent as the answer to the first item."""
        self._function = self._error = None
        choices: ComputeChoices
        if torch.cuda.is_available():  # unpickled tensors of "cuda" go to this rank's GPU
            torch.cuda.set_device(self._ranks.local_rank)
        try:
            self._function, choices = pickle.loads(pickled)
            # All choices but the number of threads are those of rank 0: machines may have other
            # numbers of cores.
            keep_computing_as(replace(choices, threads=usable_threads()))
        except Exception as error:
            self._error = sendable(error)

    def compute_item(self) -> None:
        """Compute this rank's item of a portion, if there is one, and answer rank 0."""
        item = self._ranks.scatter()
        result = None
        if item is not None and self._function is not None:
            try:
                result = self._function(*item)
            except Exception as error:
                self._error = sendable(error)
        self._ranks.gather((self._error, result))
