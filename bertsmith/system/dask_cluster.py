"""Executor of the workers of a Dask scheduler, on one machine or many.

Work and items travel to the workers, and small records back; large data goes through files that all
machines see. If a worker dies, the scheduler gives its item to another worker. When `MAX_DEATHS`
workers have died of one item, the work ends with an error.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic

from bertsmith._version import __version__
from bertsmith.errors import ConfigError, option, warn_once
from bertsmith.system.compute import is_installed
from bertsmith.system.counts import count_noun
from bertsmith.system.executor import Item, Result

CONNECT_SECONDS = 10
WORKERS_SECONDS = 30
"""Seconds to wait for the first worker."""
CHECK_SECONDS = 5
"""Seconds without a result after which the state of the workers is checked."""
MAX_DEATHS = 3
"""Workers that die while they work on an item, before the work is given up."""
STUCK_SECONDS = 300
"""Seconds without a result after which the work is given up, if all workers are paused or gone."""


@dataclass(frozen=True, slots=True)
class _SameVersion(Generic[Item, Result]):
    """Function that does `work`, or raises an error on a worker with another version of bertsmith.

    Raises:
        ConfigError: the worker's bertsmith does not have the version `version`.
    """

    work: Callable[[Item], Result]
    version: str

    def __call__(self, item: Item) -> Result:
        if __version__ != self.version:
            raise ConfigError(_other_version(f"A worker on {socket.gethostname()}", __version__))
        return self.work(item)


class DaskCluster:
    """Executor that hands items to the workers of a Dask scheduler; use `connect` to get one."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield `work(item)` for each item, in order.

        Memory holds the items in progress, one per thread of the workers, and results that wait for
        the result of an earlier item.

        Raises:
            ConfigError: `MAX_DEATHS` workers died at work on one item, the scheduler has ended, or
                for `STUCK_SECONDS` all workers were paused or gone.
        """
        same_version = _SameVersion(work, __version__)
        remaining = enumerate(items)
        pending: dict[Any, tuple[int, Item]] = {}
        results: dict[int, Result] = {}
        num_yielded = 0
        try:
            while True:
                # No more items than threads: if a worker dies, Dask counts that not only against
                # the item in work there, but also against those that waited for this worker.
                started = []
                for index, item in islice(remaining, max(0, self._num_threads() - len(pending))):
                    future = self._submit(partial(same_version, item))
                    pending[future] = index, item
                    started.append(future)
                self._limit_deaths([future.key for future in started])
                if not pending:
                    return
                # The earliest item first: if workers died, this is the item that they died of, and
                # the error names it. Later items may only have waited for these workers.
                for future in sorted(self._wait(list(pending)), key=pending.__getitem__):
                    if future.status == "lost":  # with its worker; another worker computes it again
                        continue
                    index, item = pending.pop(future)
                    results[index] = self._result(future, item)
                while num_yielded in results:
                    yield results.pop(num_yielded)
                    num_yielded += 1
        finally:
            if pending and self._client.status == "running":
                self._client.cancel(list(pending))

    def _num_threads(self) -> int:
        """Count the threads of all workers; 1 without any, so that an item waits for a new one."""
        with self._reporting_lost_scheduler():
            return max(1, sum(self._client.nthreads().values()))

    def _submit(self, work: Callable[[], object]) -> Any:
        """Submit work without arguments, since Dask would search arguments for futures."""
        with self._reporting_lost_scheduler():
            return self._client.submit(work, pure=False)

    def _limit_deaths(self, keys: Sequence[str]) -> None:
        if keys:
            with self._reporting_lost_scheduler():
                self._client.run_on_scheduler(_allow_deaths, keys, MAX_DEATHS)

    def _wait(self, futures: Sequence[Any]) -> Sequence[Any]:
        """Return the futures that have ended, once there are any; report workers that pause."""
        import distributed

        began = time.monotonic()
        while True:
            try:
                with self._reporting_lost_scheduler(), self._client.as_current():
                    ended = distributed.wait(
                        futures, timeout=CHECK_SECONDS, return_when="FIRST_COMPLETED"
                    )
                return list(ended.done)
            except TimeoutError:
                self._check(time.monotonic() - began)

    def _check(self, seconds: float) -> None:
        """Warn of paused and lost workers, after `seconds` without a result.

        Raises:
            ConfigError: the scheduler has ended, or all workers are paused or gone and `seconds` is
                above `STUCK_SECONDS`.
        """
        if self._client.status != "running":
            raise self._scheduler_ended()
        with self._reporting_lost_scheduler():
            workers = self._client.scheduler_info()["workers"]
        paused = [name for name, worker in workers.items() if worker["status"] == "paused"]
        for name in paused:
            warn_once(_paused(name), state=self._address)
        if not workers:
            warn_once(
                f"The scheduler {self._address} has lost its workers. The work goes on once others "
                f"join it ('dask worker {self._address}').",
                state=self._address,
            )
        if len(paused) == len(workers) and seconds > STUCK_SECONDS:
            reason = "all of its workers are paused" if workers else "it has no workers"
            raise ConfigError(
                f"{option('scheduler', self._address)}: nothing was done for {seconds:.0f} seconds,"
                f" as {reason}. Start others, with more memory; the same command then goes on with "
                "what is complete."
            )

    def _result(self, future: Any, item: object) -> Any:
        """Return the result of an item, or raise the error of its work.

        Raises:
            ConfigError: the scheduler has ended, too many workers died of the item, or a worker has
                no bertsmith.
        """
        import distributed

        if future.status == "cancelled":
            raise self._scheduler_ended()
        try:
            return future.result()
        except distributed.scheduler.KilledWorker as error:
            times = count_noun(MAX_DEATHS, "time")
            raise ConfigError(
                f"{item}: its worker died {times} while it worked on this, the last one at "
                f"{error.last_worker.address}. Look at what that worker printed. If its memory was "
                "full, start workers that have more, or divide the text."
            ) from error
        except distributed.comm.CommClosedError as error:
            raise self._scheduler_ended() from error
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "bertsmith":
                raise
            raise ConfigError(_no_bertsmith("A worker")) from error

    @contextmanager
    def _reporting_lost_scheduler(self) -> Iterator[None]:
        """Raise `_scheduler_ended` in place of Dask's errors about a lost connection."""
        try:
            yield
        except TimeoutError:  # an OSError, too, but only says that the time of a wait is over
            raise
        # When Dask loses the connection, it cancels the futures that are waited for.
        except (OSError, CancelledError) as error:
            raise self._scheduler_ended() from error

    def _scheduler_ended(self) -> ConfigError:
        return ConfigError(
            f"{option('scheduler', self._address)}: the scheduler has ended, or is not reached any "
            "more. Start it and its workers again; the same command then goes on with what is "
            "complete."
        )


@contextmanager
def connect(address: str) -> Iterator[DaskCluster]:
    """Connect to the scheduler at `address`, such as tcp://192.168.1.10:8786.

    Raises:
        ConfigError: dask is not installed, nobody answers, there are no workers, or the scheduler
            or a worker has no bertsmith or another version of it.
    """
    if not is_installed("distributed"):
        raise ConfigError(
            f"{option('scheduler')} needs Dask, which is not installed. Run: pip install "
            "distributed."
        )
    import distributed

    try:
        asyncio.run(_test_connection(address))
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    # A MemoryError: a server of another kind may answer with bytes that Dask reads as the length of
    # a huge message.
    except (OSError, ValueError, MemoryError) as error:
        raise ConfigError(
            f"{option('scheduler', address)}: no scheduler answers at this address (within "
            f"{CONNECT_SECONDS} seconds). Start one with 'dask scheduler' on a machine that all "
            "others reach, and give the address that it prints, such as tcp://192.168.1.10:8786."
        ) from error
    # If the scheduler has ended, the client logs errors while it closes, too.
    with _quiet("distributed.client"), client:
        _check_workers(client, address)
        yield DaskCluster(client, address)


async def _allow_deaths(keys: Sequence[str], num_deaths: int, dask_scheduler: Any) -> None:
    """Let each of these tasks fail once `num_deaths` workers have died of it.

    This runs in the scheduler. It lets a task fail when the count of its deaths (`suspicious`) is
    above `allowed_failures`. That limit is for the tasks of all users and stays as it is. Instead,
    the counts of these tasks begin at another number than 0.
    """
    end = time.monotonic() + CONNECT_SECONDS
    for key in keys:
        while key not in dask_scheduler.tasks and time.monotonic() < end:  # it is on its way
            await asyncio.sleep(0.01)
        if key in dask_scheduler.tasks:
            task = dask_scheduler.tasks[key]
            task.suspicious += dask_scheduler.allowed_failures + 1 - num_deaths


async def _test_connection(address: str) -> None:
    """Connect once before `Client` does, which would wait forever for a server of another kind."""
    import distributed

    connection = distributed.core.connect(address, timeout=CONNECT_SECONDS)
    (await asyncio.wait_for(connection, CONNECT_SECONDS)).abort()


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Suppress a logger in the block; bertsmith raises its own errors and warnings."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _check_workers(client: Any, address: str) -> None:
    """Check that there is a worker, and that all processes have this version of bertsmith.

    Raises:
        ConfigError: there is none, or a process has another version or no bertsmith.
    """
    try:
        client.wait_for_workers(1, timeout=WORKERS_SECONDS)
    except TimeoutError as error:
        raise ConfigError(
            f"{option('scheduler', address)}: the scheduler has no workers (none joined it within "
            f"{WORKERS_SECONDS} seconds). Run 'dask worker {address}' on each machine."
        ) from error
    versions = client.get_versions(packages=["bertsmith"])
    # The scheduler unpickles the work before it sends it on, so it needs bertsmith, too.
    processes = {f"The scheduler {address}": versions["scheduler"]}
    for worker, answer in versions["workers"].items():
        processes[f"The worker {worker}"] = answer
    for name, answer in processes.items():
        version = answer["packages"]["bertsmith"]
        if version is None:
            raise ConfigError(_no_bertsmith(name))
        if version != __version__:
            raise ConfigError(_other_version(name, version))


def _no_bertsmith(process: str) -> str:
    return (
        f"{process} has no bertsmith. Install version {__version__} into the environment in which "
        "it runs, and start it again."
    )


def _other_version(process: str, version: str) -> str:
    return (
        f"{process} has bertsmith {version}, and this is {__version__}. Install the same version "
        "everywhere, and start the scheduler and the workers again."
    )


def _paused(worker: str) -> str:
    return (
        f"The worker {worker} is paused: its memory is nearly full (above 80 %), so that it begins "
        "nothing new. If it stays so, start fewer workers on that machine, or give them more."
    )
