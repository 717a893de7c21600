"""The number of torch's threads, and a parallel map over threads that compute whole items.

If two threads share each matrix product, they wait for each other some hundred times in a forward
pass, and only one of them does everything else. With whole items they wait once, at the end:
all-MiniLM-L6-v2 reads 512 sentences 1.25 times as fast in int8 and 1.1 times in bf16 and fp32 (two
threads of a Zen 4).
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache
from typing import TypeVar

import torch

from bertsmith.system.cgroups import cpu_limit
from bertsmith.system.cores import available_cores
from bertsmith.system.forks import ForkSafeLock

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_threads() -> int:
    """Return the number of torch's threads, but at most the container's cores.

    Without this, torch would have a thread for each core of the machine, even in a container that
    may use fewer. A number that is set in the environment is not reduced.
    """
    limit = _thread_limit()
    threads = own_num_threads()
    return threads if limit is None else min(threads, limit)


@lru_cache
def _thread_limit() -> int | None:
    is_named = "OMP_NUM_THREADS" in os.environ or "MKL_NUM_THREADS" in os.environ
    return None if is_named or cpu_limit() is None else available_cores()


@contextlib.contextmanager
def on_usable_threads() -> Iterator[None]:
    """Compute in the block with at most as many threads as the container has cores."""
    with own_threads(usable_threads()):
        yield


@contextlib.contextmanager
def own_threads(count: int) -> Iterator[None]:
    """Compute in the block with `count` threads of torch; other threads of Python keep theirs."""
    before = own_num_threads()
    set_own_threads(count)
    try:
        yield
    finally:
        set_own_threads(before)


_setting = ForkSafeLock()
"""Held while the number of torch's threads is read or set."""


def own_num_threads() -> int:
    """Return torch's number of threads for this thread of Python.

    The lock keeps the call out of another thread's `set_own_threads`.
    """
    with _setting:
        return torch.get_num_threads()


def set_own_threads(count: int) -> None:
    """Set the number of torch's threads for this thread of Python alone.

    torch's setting belongs to a thread, but the number that was set last is also the default of
    threads that have not read it before. So a helper thread reads the default before the change and
    restores it afterwards. Between the two, threads that do not use `own_num_threads` may read
    `count`.
    """
    if own_num_threads() == count:
        return
    with _setting, ThreadPoolExecutor(1) as other:
        default = other.submit(torch.get_num_threads).result()
        torch.set_num_threads(count)
        other.submit(torch.set_num_threads, default).result()


def map_on_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `work(item)` in order, on as many threads as torch has.

    Each computes with one torch thread, and in a copy of the caller's context (`contextvars`).
    `work` must not change data that it reads for other items.
    """
    num_workers = torch.get_num_threads()
    if num_workers == 1 or len(items) <= 1:
        yield from map(work, items)
        return
    workers = _workers(num_workers)
    waiting = deque(workers.submit(copy_context().run, work, item) for item in items)
    try:
        while waiting:
            yield waiting[0].result()
            waiting.popleft()
    finally:  # cancel work that the caller abandoned
        for future in waiting:
            future.cancel()
        wait(waiting)


_starting = ForkSafeLock()
"""Held while a thread pool is looked up or started."""


def _workers(count: int) -> ThreadPoolExecutor:
    """Return the thread pool; all callers share it, so that they do not compete for cores."""
    with _starting:
        return _start(count, os.getpid())


@lru_cache
def _start(count: int, process: int) -> ThreadPoolExecutor:
    """Start threads of `process` that each compute with one torch thread.

    `process` is an argument because a forked process has none of its parent's threads.
    """
    all_set = threading.Barrier(count + 1)  # the workers and this thread

    def compute_alone() -> None:
        set_own_threads(1)
        all_set.wait()

    pool = ThreadPoolExecutor(count, "bertsmith", compute_alone)
    try:
        for _ in range(count):
            pool.submit(int)  # each starts a new worker, since the earlier ones are still waiting
        # Each worker has changed torch's default number of threads, and restored it by now.
        all_set.wait()
    except BaseException:
        all_set.abort()
        pool.shutdown()
        raise
    return pool
