"""Counting of the words of texts, on all cores.

Batches of texts travel to the workers and counts come back, so memory holds the counts and little
else. The result does not depend on the batches, the order of texts or the number of processes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import chain

from bertsmith.system.executor import Executor
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.grouping import group_by_size

Words = Callable[[str], Iterable[str]]

BATCH_CHARS = 1 << 20


def count_words(
    texts: Iterable[str],
    words: Words,
    *,
    executor: Executor | None = None,
    batch_chars: int = BATCH_CHARS,
) -> Counter[str]:
    """Count the words of `texts`.

    Args:
        words: splits a text; has to be picklable where other processes count.
        executor: counts batches; None counts them here.

    Raises:
        ConfigError: a worker process was ended from outside.
    """
    executor = executor or LocalProcesses(1)
    batches = group_by_size(texts, batch_chars)
    counts: Counter[str] = Counter()
    with closing(executor.map_in_order(partial(_count_batch, words), batches)) as counted:
        for part in counted:
            counts.update(part)
    return counts


def _count_batch(words: Words, texts: list[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(words, texts)))
