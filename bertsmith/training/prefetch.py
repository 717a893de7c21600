"""Prepare the batches of the next steps on a second thread.

numpy and torch release the interpreter's lock (GIL) during their operations, so the next batches
are made while the model computes.
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
"""Largest number of steps whose batches wait in the queue."""
POLL_SECONDS = 0.1
"""Time after which the thread looks again whether it is to end, while the queue is full."""


class Prefetcher(Generic[T]):
    """Iterator of `prepare(step)` for steps from `first`, until `close`.

    A thread prepares about `DEPTH` steps ahead. `next` raises an error of `prepare` in place of the
    result of its step.
    """

    def __init__(self, prepare: Callable[[int], T], first: int) -> None:
        self._prepare = prepare
        self._first = first
        self._ready: queue.Queue[T | BaseException] = queue.Queue(DEPTH)
        self._num_threads = torch.get_num_threads()
        self._stopped = threading.Event()
        self._choices = earlier_choices()  # those of the thread that trains; None if it measures
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
        # A new thread of Python has neither the number of torch threads nor the `ComputeChoices`
        # (such as the precision) of the thread that trains.
        set_own_threads(self._num_threads)
        with computing_as(self._choices):
            self._prepare_all()

    def _prepare_all(self) -> None:
        step = self._first
        while not self._stopped.is_set():
            result: T | BaseException
            try:
                result = self._prepare(step)
            except BaseException as error:  # for `__next__` to raise
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
