"""Work that other processes do: items in, results out in the same order, on all cores.

Only a few items are on their way at a time, so memory does not grow with their number. A worker
never outlives the main process, even if that is killed.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, TypeVar

from bertsmith.errors import ConfigError

# One process reads for all; it cannot keep more than this many busy, and each takes memory.
MAX_PROCESSES = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_processes(asked: int | None = None) -> int:
    """As many as were asked for, or one for each core that this process may use.

    Raises:
        ConfigError: fewer than one.
    """
    if asked is None:
        allowed = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        return min(len(allowed(0)), MAX_PROCESSES)
    if asked < 1:
        raise ConfigError(f"--processes {asked}: allowed is at least 1.")
    return asked


def map_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """Give `work(item)` for each item, done in this process or in `processes` others.

    Args:
        work: has to be picklable; each process gets one copy and keeps what it remembers.

    Raises:
        ConfigError: a process was ended from outside.
    """
    if processes == 1:
        yield from map(work, items)
        return
    # Forking a process that has threads can deadlock, so workers start afresh everywhere.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, spawn, _start_worker, (work,))
    try:
        yield from _in_order(pool, items, 2 * processes)
    except BrokenProcessPool as error:
        raise ConfigError(
            "a worker process died, perhaps because the memory was full. Nothing was changed; "
            "run the command again with fewer --processes."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, items: Iterable[Any], ahead: int) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    for item in items:
        pending.append(pool.submit(_do, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


_work: Callable[[Any], Any]


def _start_worker(work: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603 - a worker process has no other place for its state
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to answer
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker if the main process was killed and cannot tell it to."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)


def _do(item: Any) -> Any:
    return _work(item)
