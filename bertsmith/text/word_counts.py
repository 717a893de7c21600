"""Texts → how often each word occurs, on all cores.

Whole batches of texts travel to the workers and counts come back; only a few batches are on
their way at a time, so memory holds the counts and little else. Counts add up to the same
whatever the batches, the order of texts or the number of processes.
"""

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice

Words = Callable[[str], Iterable[str]]

BATCH_CHARS = 1 << 20


def count_words(
    texts: Iterable[str], words: Words, *, processes: int = 1, batch_chars: int = BATCH_CHARS
) -> Counter[str]:
    """Count the words of `texts`.

    Args:
        words: splits a text; with more than one process it has to be picklable.
        processes: how many to count in; what fits into one batch is counted right here.
    """
    batches = _batches(texts, batch_chars)
    start = list(islice(batches, 2))
    if processes > 1 and len(start) > 1:
        return _count_in_pool(chain(start, batches), words, processes)
    counts: Counter[str] = Counter()
    for batch in chain(start, batches):
        _add(counts, batch, words)
    return counts


def _batches(texts: Iterable[str], batch_chars: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= batch_chars:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _add(counts: Counter[str], texts: Iterable[str], words: Words) -> None:
    for text in texts:
        counts.update(words(text))


def _count_in_pool(batches: Iterable[list[str]], words: Words, processes: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    pending: deque[Future[Counter[str]]] = deque()
    # Forking a process that has threads can deadlock, so workers start afresh everywhere.
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _start_worker, (words,)
    )
    try:
        for batch in batches:
            pending.append(pool.submit(_count_batch, batch))
            if len(pending) > 2 * processes:
                counts.update(pending.popleft().result())
        while pending:
            counts.update(pending.popleft().result())
    finally:
        pool.shutdown(cancel_futures=True)
    return counts


_worker_words: Words


def _start_worker(words: Words) -> None:
    """Keep `words` for all batches: what it remembers of characters is worth keeping."""
    global _worker_words  # noqa: PLW0603 - a worker process has no other place for its state
    _worker_words = words
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to answer


def _count_batch(texts: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    _add(counts, texts, _worker_words)
    return counts
