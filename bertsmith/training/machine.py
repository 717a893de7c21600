"""The device, precision and processes that a run computes with."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings, computing_as, count_trainers
from bertsmith.system.matrix_products import Precision
from bertsmith.training.run_folder import RunFolder


@dataclass(frozen=True)
class Machine:
    """Hardware of a run."""

    device: torch.device
    precision: Precision
    num_processes: int

    @contextlib.contextmanager
    def as_one_process(self) -> Iterator[None]:
        """Give torch the threads of one process, within the block."""
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, before // self.num_processes))
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
        yield Machine(device, precision, count_trainers(device))
