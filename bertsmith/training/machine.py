"""The device, precision and processes that a run computes with."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings, computing_as, count_trainers
from bertsmith.system.matrix_products import Precision
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.workers.rank_group import joined_ranks


@dataclass(frozen=True)
class Machine:
    """Hardware of a run: `num_processes` on all of `num_ranks` ranks together."""

    device: torch.device
    precision: Precision
    num_processes: int
    num_ranks: int = 1

    @property
    def processes_here(self) -> int:
        """The number of processes on this rank."""
        return self.num_processes // self.num_ranks

    @contextlib.contextmanager
    def as_one_process(self) -> Iterator[None]:
        """Give torch the threads of one process, within the block."""
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, before // self.processes_here))
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextlib.contextmanager
def computing_on(compute: Compute, before: RunFolder | None = None) -> Iterator[Machine]:
    """Compute in the block with these settings, or as the run to be resumed did before.

    Raises:
        ConfigError: this machine has no such device.
        CheckpointError: the run.json of that run is damaged.
    """
    choices = None if before is None else before.read_choices()
    with computing_as(choices), compute_settings(compute) as (device, precision):
        ranks = joined_ranks()
        num_ranks = 1 if ranks is None else ranks.num_ranks
        yield Machine(device, precision, num_ranks * count_trainers(device), num_ranks)
