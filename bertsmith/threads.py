"""Work that threads share by taking whole items, each computing on its own.

Where two threads share every product, each waits for the other some hundred times in a forward
pass, and what is not a product is done by one of them. With items of their own they wait once, at
the end: all-MiniLM-L6-v2 reads 512 sentences 1.25 times as fast in int8 and 1.1 times in bf16 and
fp32 (two threads of a Zen 4).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_on_threads(
    work: Callable[[Item], Result], items: Sequence[Item], num_threads: int
) -> Iterator[Result]:
    """Give `work(item)` for each item in their order, `num_threads` of them at a time.

    The threads that torch computes with are divided among them. `work` must not change what
    another item's reads.
    """
    num_workers = min(num_threads, len(items))
    if num_workers <= 1:
        yield from map(work, items)
        return
    threads_before = torch.get_num_threads()
    # A number of threads is the calling thread's own, but also what others take at their first
    # look. So a worker looks before it sets its own, and torch's is put right as soon as all have.
    all_set = threading.Barrier(num_workers + 1)

    def take_share() -> None:
        torch.get_num_threads()
        torch.set_num_threads(max(1, threads_before // num_workers))
        all_set.wait()

    with ThreadPoolExecutor(num_workers, initializer=take_share) as pool:
        try:
            results = pool.map(work, items)
            all_set.wait()
        except BaseException:
            all_set.abort()
            raise
        finally:
            torch.set_num_threads(threads_before)
        yield from results
