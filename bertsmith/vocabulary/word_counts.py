"""Counting of the words of texts, on all cores.

Batches of texts travel to the workers and counts come back, so memory holds the counts and little
else. The result does not depend on the batches, the order of texts or the number of processes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import chain, islice

from bertsmith.system.processes import map_in_order
from bertsmith.tokenization.grouping import group_by_size

Words = Callable[[str], Iterable[str]]

BATCH_CHARS = 1 << 20


def count_words(
    texts: Iterable[str], words: Words, *, processes: int = 1, batch_chars: int = BATCH_CHARS
) -> Counter[str]:
    """Count the words of `texts`.

    Args:
        words: splits a text; with more than one process it has to be picklable.
        processes: number of processes; a single batch is counted in this one.

    Raises:
        ConfigError: a worker process was ended from outside.
    """
    batches = group_by_size(texts, batch_chars)
    start = list(islice(batches, 2))
    if processes > 1 and len(start) > 1:
        return _count_in_pool(chain(start, batches), words, processes)
    counts: Counter[str] = Counter()
    for batch in chain(start, batches):
        _add(counts, batch, words)
    return counts


def _add(counts: Counter[str], texts: Iterable[str], words: Words) -> None:
    for text in texts:
        counts.update(words(text))


def _count_in_pool(batches: Iterable[list[str]], words: Words, processes: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    with closing(map_in_order(partial(_count_batch, words), batches, processes)) as counted:
        for part in counted:
            counts.update(part)
    return counts


def _count_batch(words: Words, texts: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    _add(counts, texts, words)
    return counts
