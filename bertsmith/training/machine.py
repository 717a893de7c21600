"""The device, precision and processes that a run computes with.

A *share* is a part of a step: some of its micro-batches, which one worker process computes. A
*rank* is one of the machines or GPUs that train together.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bertsmith.errors import ConfigError, option
from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings, computing_as, count_worker_processes
from bertsmith.system.matrix_products import Precision
from bertsmith.system.threads import own_num_threads, own_threads
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.workers.rank_group import joined_ranks

EXACT_SHARES = 12
"""Number of shares of a step with `--exact`. On 1, 2, 3, 4, 6 or 12 ranks each rank has equally
many shares, whose gradients are added in the same order. Other numbers of ranks are refused."""


@dataclass(frozen=True)
class Machine:
    """The hardware of a run, and the number of shares into which a step is divided for it."""

    device: torch.device
    precision: Precision
    num_shares: int
    """Number of shares of a step, on all ranks together: one for each worker process. With
    `--exact` there are always `EXACT_SHARES`, and a worker process computes several of them."""
    num_ranks: int = 1
    num_processes: int | None = None
    """Number of worker processes of this rank; None if it has one for each of its shares."""

    @property
    def shares_here(self) -> int:
        """The number of shares of this rank."""
        return self.num_shares // self.num_ranks

    @property
    def processes_here(self) -> int:
        """The number of worker processes of this rank."""
        return min(self.num_processes or self.shares_here, self.shares_here)

    def check_batch_size(self, batch_size: int) -> None:
        """Check that each rank has something to compute in a step.

        Raises:
            ConfigError: there are more ranks than rows or examples.
        """
        if self.num_ranks > batch_size:
            raise ConfigError(
                f"{option('batch_size')}: found {batch_size} with {self.num_ranks} ranks, some of "
                "which would have nothing to compute. Launch fewer ranks, or give a larger number."
            )

    @contextlib.contextmanager
    def as_one_process(self) -> Iterator[None]:
        """Give torch, within the block, as many threads as one of the run's processes has.

        Code that times a part of a step needs this.
        """
        with own_threads(max(1, own_num_threads() // self.shares_here)):
            yield


@contextlib.contextmanager
def computing_on(compute: Compute, resumed: RunFolder | None = None) -> Iterator[Machine]:
    """Compute in the block with these settings, or as the `resumed` run did before.

    Args:
        compute: the settings of device, precision and threads.
        resumed: the folder of a run that continues, whose run.json says how it computed; else None.

    Raises:
        ConfigError: this machine has no such device.
        CheckpointError: the run.json of that run is damaged.
    """
    choices = None if resumed is None else resumed.read_choices()
    # By these choices, "auto" means what it meant when the run began.
    with computing_as(choices), compute_settings(compute) as (device, precision):
        ranks = joined_ranks()
        num_ranks = 1 if ranks is None else ranks.num_ranks
        num_processes = count_worker_processes(device)
        num_shares = num_ranks * num_processes
        if compute.exact:
            _check_exact(device, num_ranks)
            num_shares = EXACT_SHARES
        yield Machine(
            device, precision, num_shares, num_ranks=num_ranks, num_processes=num_processes
        )


def _check_exact(device: torch.device, num_ranks: int) -> None:
    if device.type != "cpu":
        raise ConfigError(
            f"{option('exact')}: found on the device {device}, whose sums have no fixed order. "
            f"Leave it out, or train with {option('device', 'cpu')}."
        )
    if EXACT_SHARES % num_ranks:
        raise ConfigError(
            f"{option('exact')}: a step has {EXACT_SHARES} shares, which {num_ranks} ranks cannot "
            f"divide evenly. Launch 1, 2, 3, 4, 6 or 12 ranks, or leave out {option('exact')}."
        )
