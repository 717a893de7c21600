"""A thread of each rank that reports every second that the rank is alive, and at which line it is.

Ranks are the machines or GPUs that train together. Rank 0 watches all others, and they watch rank
0. A rank that stops reporting is named with the stack that it reported last, and the run ends. The
main thread may compute a step for minutes. So another thread reports, and a stopped process is
found sooner than a slow step takes. A rank that reports but does not answer is only named, since a
main thread that hangs looks like a slow one.

Ranks report in a store, a table in the network that rank 0 or its launcher serves. If the process
that serves the store is stopped, a call of the store waits for ever, and with it the thread that
watches. A second thread then ends the rank.

Both threads measure time by counting their own rounds of a second. A clock would go on while all
ranks are suspended, and those that are resumed first would find the others silent.
"""

import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

import torch.distributed as dist

from bertsmith.training.workers.rank_errors import print_on_rank

BEAT_SECONDS = 1.0
"""Time between two reports of a rank. Each report adds 1 to the rank's number of beats."""
STORE_FACTOR = 2
"""Longest time that the store may be silent, as a multiple of the longest time of a rank. It is
longer for two reasons. A silent rank is named before a silent store. And if the store has ended,
the next message usually raises an error that ends this rank; the watch waits for that error as long
as for a silent rank."""


class Watch:
    """The watch of one rank.

    Args:
        store: is shared by all ranks.
        hosts: host name of each rank.
        silence_seconds: longest time that a rank may be silent.
    """

    def __init__(self, store: Any, rank: int, hosts: Sequence[str], silence_seconds: float) -> None:
        self.num_begun = 0
        """Number of messages that this rank has begun to send or receive. All ranks have the same
        messages in the same order, so a rank with a smaller number keeps the others waiting."""
        self._store = store
        self._rank = rank
        self._hosts = hosts
        self._silence_seconds = silence_seconds
        self._watched: Sequence[int] = range(1, len(hosts)) if rank == 0 else [0]
        self._named_late: set[tuple[int, int]] = set()
        """Late ranks that were named, each with its number of messages then."""
        self._num_rounds = 0
        """Number of times that the store has answered all calls of a round."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()
        self._thread_ended = threading.Event()
        self._store_thread = threading.Thread(target=self._watch_store, name="store", daemon=True)
        self._store_thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._thread_ended.set()
        self._store_thread.join()

    def _watch_store(self) -> None:
        """End this process if the store does not answer the thread that watches the ranks."""
        limit = STORE_FACTOR * self._silence_seconds
        num_rounds = 0
        seconds = 0.0
        while not self._thread_ended.wait(BEAT_SECONDS):
            seconds += BEAT_SECONDS
            if self._num_rounds != num_rounds:
                num_rounds = self._num_rounds
                seconds = 0.0
            if seconds > limit:
                self._end(
                    f"The store of the ranks has not answered for {limit:.0f} s. Rank 0 or its "
                    "launcher holds it, and may be stopped or out of reach"
                )

    def _work(self) -> None:
        """Report every second, and end this process if a watched rank does not report."""
        # Each count of seconds begins again where the number beside it has changed.
        num_begun, waiting_seconds = 0, 0.0
        beats = dict.fromkeys(self._watched, 0)
        silent_seconds = dict.fromkeys(self._watched, 0.0)
        while not self._stopped.wait(BEAT_SECONDS):
            try:
                self._report()
                for rank in self._watched:
                    silent_seconds[rank] += BEAT_SECONDS
                    beat = self._store.add(_beat_key(rank), 0)
                    if beat != beats[rank]:
                        beats[rank] = beat
                        silent_seconds[rank] = 0.0
                waiting_seconds += BEAT_SECONDS
                if self.num_begun != num_begun:
                    num_begun, waiting_seconds = self.num_begun, 0.0
                elif self._rank == 0 and waiting_seconds > self._silence_seconds:
                    self._name_late_ranks(num_begun, silent_seconds)
                self._num_rounds += 1
            except (dist.DistError, RuntimeError):
                # The process that holds the store, rank 0 or torchrun, has ended. The next message
                # raises an error, which ends this rank; but gloo has been seen to wait for ever
                # instead.
                if not self._stopped.wait(self._silence_seconds):
                    self._end("Rank 0 or its launcher has ended")
                return
            for rank in self._watched:
                if silent_seconds[rank] > self._silence_seconds:
                    self._end(
                        f"{self._name(rank)} has been silent for {self._silence_seconds:.0f} s",
                        self._last_stack(rank),
                    )

    def _report(self) -> None:
        """Report the number of messages begun and the main thread's stack, then add a beat."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        # Names of files that are not UTF-8 cannot be sent as they are.
        stack = describe_stack(frame).encode(errors="backslashreplace").decode()
        self._store.set(_report_key(self._rank), f"{self.num_begun}\n{stack}")
        self._store.add(_beat_key(self._rank), 1)

    def _reported(self, rank: int) -> tuple[int, str]:
        """Return the number of messages begun and the stack that a rank reported last."""
        key = _report_key(rank)
        if not self._store.check([key]):
            return 0, ""
        number, _, stack = self._store.get(key).decode().partition("\n")
        return int(number), stack

    def _last_stack(self, rank: int) -> str:
        """Return the stack that a rank reported last; empty if the store does not answer."""
        with contextlib.suppress(dist.DistError, RuntimeError):
            return self._reported(rank)[1]
        return ""

    def _name_late_ranks(self, num_begun: int, silent_seconds: Mapping[int, float]) -> None:
        """Name, once, the ranks that report, but whose answer has been awaited too long.

        Args:
            num_begun: the number of messages that rank 0 has begun; a late rank has begun fewer.
            silent_seconds: the time since the last report of each rank.
        """
        for rank in self._watched:
            if silent_seconds[rank] > self._silence_seconds / 2:
                continue
            number, stack = self._reported(rank)
            if number < num_begun and (rank, number) not in self._named_late:
                self._named_late.add((rank, number))
                print_on_rank(
                    f"{self._name(rank)} is alive, but has not answered for "
                    f"{self._silence_seconds:.0f} s. The run waits for it. It is at:\n{stack}"
                )

    def _name(self, rank: int) -> str:
        return f"rank {rank} on {self._hosts[rank]}"

    def _end(self, reason: str, stack: str = "") -> NoReturn:
        """End this process, whose main thread may wait for ever, so that the launcher notices.

        Args:
            reason: the beginning of a sentence.
            stack: the stack that the rank in question reported last; empty if there is none.
        """
        try:
            print_on_rank(
                f"{reason}, so the run ends here. Earlier checkpoints are as they were. "
                + (f"That rank was last at:\n{stack}\n" if stack else "")
                + "This rank was waiting at:"
            )
            faulthandler.dump_traceback(file=sys.__stderr__ or 2)
        finally:  # also if nobody reads the message any more
            os._exit(1)


def describe_stack(frame: FrameType | None) -> str:
    """Describe a stack in the format of `faulthandler`, the most recent call first."""
    lines = []
    while frame is not None:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
        frame = frame.f_back
    return "\n".join(lines)


def _beat_key(rank: int) -> str:
    return f"beat-{rank}"


def _report_key(rank: int) -> str:
    return f"report-{rank}"
