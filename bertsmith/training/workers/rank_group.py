"""The ranks (machines or GPUs) of a launch, as one of them sees them.

Rank 0 sends requests, and all ranks answer. Messages are Python objects, sent by gloo, a backend of
torch.distributed. A rank waits for a message without a time limit, since a step or an evaluation
may take any time. Instead each rank reports every second that it is alive (`rank_watch.py`). If a
rank does not report for `silence_seconds`, another rank names it, and the run ends.
"""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from bertsmith.errors import ConfigError, TrainingError, option
from bertsmith.system.launch import Launch, read_silence_limit
from bertsmith.training.workers.line_check import (
    JOIN_SECONDS,
    check_lines,
    open_store,
    prefixed,
)
from bertsmith.training.workers.rank_watch import Watch

SILENCE_SECONDS = {"cpu": 60.0, "cuda": 300.0}
"""Longest time that a rank may be silent, by device, unless the user sets another."""
NO_LIMIT = timedelta(days=365)
"""Time limit of a message: gloo needs one, and no run is so long."""

LOST_RANK = (
    "A rank has ended, so the run ends here. Its own message may say why. Earlier checkpoints "
    f"are as they were: launch the same line again with {option('resume', True)}. The restarts "
    "of torchrun do that by themselves."
)


class RankGroup:
    """All ranks of a launch, seen from one of them.

    Args:
        launch: says which rank this process is, how many there are, and where rank 0 is.

    Raises:
        ConfigError: not all ranks started within `JOIN_SECONDS`, the command line of a rank was
            refused, or this torch cannot connect them.
    """

    def __init__(self, launch: Launch) -> None:
        if not dist.is_available():
            raise ConfigError(
                "Several processes were launched, and this build of torch has no "
                "torch.distributed. Install a build that has it, or launch one process."
            )
        self.rank = launch.rank
        self.num_ranks = launch.num_ranks
        self.local_rank = launch.local_rank
        self.is_broken = False
        """Whether a message failed, for example because a rank has ended."""
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
        self.silence_seconds = read_silence_limit() or SILENCE_SECONDS[device_type]
        try:
            store = open_store(launch)
            check_lines(launch, store)
            dist.init_process_group(
                "gloo",
                store=prefixed("messages", store),
                rank=launch.rank,
                world_size=launch.num_ranks,
                timeout=timedelta(seconds=JOIN_SECONDS),
            )
            self._messages = dist.new_group(backend="gloo", timeout=NO_LIMIT)
            self.hosts: list[str] = self._all(socket.gethostname())
        except (dist.DistError, RuntimeError) as error:
            first_line = str(error).partition("\n")[0]
            raise ConfigError(
                f"Rank {launch.rank} of {launch.num_ranks} could not reach the others at "
                f"{launch.address}:{launch.port}: {first_line}. Check MASTER_ADDR "
                "and MASTER_PORT, and that all ranks have started."
            ) from error
        self._watch = Watch(prefixed("alive", store), self.rank, self.hosts, self.silence_seconds)

    def new_group(self, device: torch.device) -> dist.ProcessGroup:
        """Return a group for collectives on this kind of device; every rank calls this."""
        backend = "nccl" if device.type == "cuda" else "gloo"
        group: dist.ProcessGroup = dist.new_group(
            backend=backend,
            # Longer than ranks may be silent, so that `Watch` names a silent rank first.
            timeout=timedelta(seconds=2 * self.silence_seconds),
        )
        return group

    def broadcast(self, message: object) -> None:
        """Send a message from rank 0 to all others.

        Raises:
            TrainingError: a rank has ended.
        """
        with self._exchanging():
            dist.broadcast_object_list([message], src=0, group=self._messages)

    def receive(self) -> Any:
        """Wait for the next message from rank 0.

        Raises:
            TrainingError: rank 0 has ended.
        """
        messages: list[Any] = [None]
        with self._exchanging():
            dist.broadcast_object_list(messages, src=0, group=self._messages)
        return messages[0]

    def gather(self, answer: object) -> list[Any]:
        """Gather an answer of each rank at rank 0, in order; other ranks get an empty list.

        Raises:
            TrainingError: a rank has ended.
        """
        answers: list[Any] | None = [None] * self.num_ranks if self.rank == 0 else None
        with self._exchanging():
            dist.gather_object(answer, answers, dst=0, group=self._messages)
        return answers or []

    def scatter(self, items: Sequence[object] = ()) -> Any:
        """Send each rank one of rank 0's `items`; return the item of this rank.

        There are as many items as ranks. Other ranks call this method without items.

        Raises:
            TrainingError: a rank has ended.
        """
        own: list[Any] = [None]
        with self._exchanging():
            dist.scatter_object_list(own, list(items) or None, src=0, group=self._messages)
        return own[0]

    @contextlib.contextmanager
    def _exchanging(self) -> Iterator[None]:
        """Send or receive one message in the block.

        If that fails, `is_broken` stays true: ranks no longer agree on the next message.
        """
        if self.is_broken:
            raise TrainingError(LOST_RANK)
        self.is_broken = True  # until the block has ended without an error, such as Ctrl-C
        self._watch.num_begun += 1
        try:
            yield
        except (dist.DistError, RuntimeError) as error:
            raise TrainingError(LOST_RANK) from error
        self.is_broken = False

    def _all(self, value: object) -> list[Any]:
        """Return the values of all ranks, in order; every rank calls this with its own."""
        values: list[Any] = [None] * self.num_ranks
        dist.all_gather_object(values, value, group=self._messages)
        return values

    def close(self) -> None:
        """End the connections, after the last message."""
        self._watch.close()
        if not self.is_broken:  # after a failure this would wait for ranks that may have ended
            dist.destroy_process_group()


_joined: list[RankGroup] = []
"""The ranks that this process has joined; only the last entry is used."""


def join_ranks(launch: Launch) -> RankGroup:
    """Join the other ranks, for as long as this process lives."""
    _joined.append(RankGroup(launch))
    return _joined[-1]


def joined_ranks() -> RankGroup | None:
    """Return the ranks that this process joined, if any."""
    return _joined[-1] if _joined else None
