"""Parallel map over processes, with results in order.

Only a few items are in progress at a time, so memory does not grow with their number. Workers end
with the main process, even if that is killed.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import Any

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_largest
from bertsmith.system.cores import available_cores
from bertsmith.system.executor import Item, Result
from bertsmith.system.held_signals import signals_held_back
from bertsmith.system.own_modules import import_modules, imported_modules
from bertsmith.system.stop_signal import SIGNALS
from bertsmith.system.user_script import is_script_guarded

MAX_PROCESSES = 16
"""Default number of workers on a computer with many cores. Only the main process writes results; it
cannot keep more workers busy, and each takes memory."""


def count_processes(requested: int | None = None) -> int:
    """Return the number of processes to start: `requested`, or a default.

    The default is one for each core that this process may use, but at most `MAX_PROCESSES`.

    Raises:
        ConfigError: it is below 1 or far too large.
    """
    if requested is None:
        return min(available_cores(), MAX_PROCESSES)
    check_largest("processes", requested)
    if requested < 1:
        raise SettingError("processes", requested, "1 or more")
    return requested


@contextmanager
def without_script() -> Iterator[None]:
    """Keep processes that start in the block from running the user's script again.

    Python would run it in each of them, unless it is guarded by `if __name__ == "__main__"`. So a
    script that is not guarded is hidden, and so is one from standard input, which cannot be read
    again. Workers then cannot receive objects of its classes and functions.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    spec = main.__spec__
    if file is None or is_script_guarded():
        yield
        return
    main.__file__ = main.__spec__ = None
    try:
        yield
    finally:
        main.__file__ = file
        main.__spec__ = spec


class LocalProcesses:
    """Executor with some processes on this machine, by default as many as `count_processes` says.

    Each process has its own copy of `work`, which may keep a state from item to item. This process
    itself does the work if there is one item or one process, or if this is a worker of a
    `multiprocessing.Pool`, which may not start processes.
    """

    def __init__(self, processes: int | None = None) -> None:
        self.processes = count_processes(processes)

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield `work(item)` for each item, in order.

        Raises:
            ConfigError: a process was ended from outside.
        """
        remaining = iter(items)
        first = list(islice(remaining, self.processes))  # no more workers than items
        if len(first) == 1 or multiprocessing.current_process().daemon:
            yield from map(work, chain(first, remaining))
            return
        workers: list[_Worker] = []
        pool = ThreadPoolExecutor(self.processes)
        try:
            condition = f"with fewer {option('processes')}"
            workers += (_Worker(work, condition) for _ in first)
            yield from _in_order(
                pool, workers, chain(first, remaining), max_pending=2 * self.processes
            )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()
            pool.shutdown()  # waits for its threads, whose workers are gone now


def run_in_new_process(work: Callable[[Item], Result], item: Item) -> Result:
    """Return `work(item)`, computed by a process that starts for it, and then ends.

    Raises:
        ConfigError: the process was ended from outside.
    """
    worker = _Worker(work, "when more memory is free")
    try:
        result: Result = worker.do(item)
    finally:
        worker.end()
    return result


def _in_order(
    pool: ThreadPoolExecutor, workers: Iterable["_Worker"], items: Iterable[Any], max_pending: int
) -> Iterator[Any]:
    """Have idle workers work on the items, each called by a thread, and yield the results in order.

    Args:
        max_pending: number of items that may be waiting, in progress or finished, but whose results
            are not yielded yet.
    """
    idle = deque(workers)

    def do(item: Any) -> Any:
        worker = idle.popleft()
        try:
            return worker.do(item)
        finally:
            idle.append(worker)

    pending: deque[Future[Any]] = deque()
    for item in items:
        pending.append(pool.submit(do, item))
        if len(pending) > max_pending:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


class _Worker:
    """A process that handles one item at a time.

    Each worker has its own pipe. If it dies while it sends a result, the pipe breaks and `do`
    raises an error. The standard library's pool shares one pipe among all workers, and would wait
    forever.

    Args:
        condition: under what condition the command may succeed after this process has died, such as
            "when more memory is free"; the error message ends with it.
    """

    def __init__(self, work: Callable[[Any], Any], condition: str) -> None:
        self._condition = condition
        # Forking a process that has threads can deadlock, so workers start afresh everywhere.
        spawn = multiprocessing.get_context("spawn")
        self._pipe, worker_pipe = spawn.Pipe()
        # A new process has not imported the user's modules that `--import` named.
        args = work, worker_pipe, imported_modules()
        self._process = spawn.Process(target=_serve, args=args, daemon=True)
        try:
            with signals_held_back(), without_script():
                self._process.start()
        except BrokenPipeError as error:
            raise self._death_error() from error
        finally:
            worker_pipe.close()

    def do(self, item: Any) -> Any:
        """Return the result of `work` for an item, or raise its error."""
        try:
            self._pipe.send(item)
            result, error = self._pipe.recv()
        except (EOFError, OSError) as pipe_error:
            raise self._death_error() from pipe_error
        if error is not None:
            raise error
        return result

    def _death_error(self) -> ConfigError:
        """Build the error for a worker that has died, or is about to."""
        self._process.join()
        code = self._process.exitcode or 0
        ending = f"ended with exit code {code}"
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            ending = f"was ended by {names.get(-code, f'signal {-code}')}"
        if code == -9:
            ending = "was killed (SIGKILL), as the system does when the memory is full"
        return ConfigError(
            f"a worker process {ending}. Nothing was changed; run the command again "
            f"{self._condition}."
        )

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(work: Callable[[Any], Any], pipe: Connection, modules: tuple[str, ...]) -> None:
    """In a worker: receive items, and send back the result of `work` for each, or its error."""
    for number in SIGNALS:  # the main process handles them, and ends this one
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # they were held back while this process began
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import_modules(modules)
    while True:
        item = pipe.recv()
        answer: tuple[Any, Exception | None]
        try:
            answer = work(item), None
        except Exception as raised:  # for the main process to raise
            error = to_sendable(raised)
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
            answer = None, error
        pipe.send(answer)


def to_sendable(error: Exception) -> Exception:
    """Return an error, or a RuntimeError with its text if it cannot be pickled and unpickled.

    That is so for errors of libraries whose classes take other arguments than they store.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a class of any library may fail in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """End this worker when the main process ends, even if killed."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)
