"""Clusters of Dask on this machine, with processes as workers, and functions for them to run."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

from bertsmith.system.dask_cluster import connect


@contextmanager
def local_cluster():
    """Start a scheduler and two workers of one thread; yield its address, an executor and it."""
    import dask
    import distributed

    # By default, Dask gives a worker up for good if it does not run 15 seconds after it died. On a
    # busy machine a worker takes longer to start again, or has just died once more.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            # A free port: with None the scheduler still takes 8787, which another test may hold.
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as cluster,
        connect(cluster.scheduler_address) as executor,
    ):
        yield cluster.scheduler_address, executor, cluster.scheduler


def square(number):
    return number * number


def process_of(item):
    time.sleep(0.05)
    return os.getpid()


def end_the_process(path):
    """End this process if a file is there, to which it first adds a line."""
    if path.exists():
        with path.open("a") as file:
            file.write("ended\n")
        time.sleep(0.5)
        os._exit(1)
    return path.name


def refuse(path):
    return Path(path).read_bytes()


class KillingExecutor:
    """Executor that kills a worker of its cluster after the first result."""

    def __init__(self, executor):
        self.executor = executor
        self.results = []

    def map_in_order(self, work, items):
        (victim,) = self.executor.map_in_order(process_of, [0])
        results = self.executor.map_in_order(work, items)
        yield next(results)
        os.kill(victim, 9)
        yield from results
