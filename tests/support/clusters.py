"""Clusters of Dask on this machine, whose workers are processes, and work for them."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

from bertsmith.system.dask_cluster import connect


@contextmanager
def local_cluster():
    """Give the address of a scheduler with two workers of one thread, and connect to it."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        _allowing(cluster.scheduler, 1),
        connect(cluster.scheduler_address) as executor,
    ):
        yield cluster.scheduler_address, executor


@contextmanager
def _allowing(scheduler, failures):
    """Let an item fail after fewer deaths of its workers than three, each of which takes time."""
    scheduler.allowed_failures = failures
    yield


def square(number):
    return number * number


def process_of(item):
    time.sleep(0.05)
    return os.getpid()


def end_the_process(number):
    if number == 3:
        os._exit(1)
    return number


def refuse(path):
    return Path(path).read_bytes()


class KillingExecutor:
    """Executor that kills a worker of a cluster once the first result is there."""

    def __init__(self, executor):
        self.executor = executor
        self.results = []

    def map_in_order(self, work, items):
        (victim,) = self.executor.map_in_order(process_of, [0])
        results = self.executor.map_in_order(work, items)
        yield next(results)
        os.kill(victim, 9)
        yield from results
