"""Prepare batches ahead on a second thread.

numpy releases the interpreter's lock while it works, so the next batches are ready when the model
has finished the last one.
"""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from bertsmith.system.hardware import computing_as, earlier_choices
from bertsmith.system.threads import set_own_threads

T = TypeVar("T")

DEPTH = 4
POLL_SECONDS = 0.1


class Prefetcher(Generic[T]):
    """Iterator of `prepare(step)` for steps from `first`, until `close`.

    A thread prepares at most `DEPTH` steps ahead. An error of `prepare` is raised in the loop, at
    the step that it belongs to.
    """

    def __init__(self, prepare: Callable[[int], T], first: int) -> None:
        self._prepare = prepare
        self._first = first
        self._ready: queue.Queue[T | BaseException] = queue.Queue(DEPTH)
        self._num_threads = torch.get_num_threads()
        self._stopped = threading.Event()
        self._choices = earlier_choices()
        self._thread = threading.Thread(target=self._work, name="prefetch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the step that it is preparing."""
        self._stopped.set()
        self._thread.join()

    def __next__(self) -> T:
        result = self._ready.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _work(self) -> None:
        set_own_threads(self._num_threads)  # as the thread that trains
        with computing_as(self._choices):
            self._prepare_all()

    def _prepare_all(self) -> None:
        step = self._first
        while not self._stopped.is_set():
            result: T | BaseException
            try:
                result = self._prepare(step)
            except BaseException as error:  # for the loop to raise
                self._put(error)
                return
            self._put(result)
            step += 1

    def _put(self, result: T | BaseException) -> None:
        while not self._stopped.is_set():
            try:
                self._ready.put(result, timeout=POLL_SECONDS)
                return
            except queue.Full:
                continue
