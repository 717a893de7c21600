"""Exchange between ranks (machines or GPUs): gradients before an update, weights after it."""

from typing import Protocol

from torch import Tensor


class Exchange(Protocol):
    """One rank's exchange of gradients and weights with the others."""

    def reduce(self, gradients: Tensor) -> None:
        """Sum the gradients of all ranks into the first row of this rank's.

        `gradients` are fp32 `[num_shares, size]`. The sum is complete only for the weights that
        this rank updates: those in its range, and whole parameters that its shares update.
        """
        ...

    def all_gather(self, array: Tensor) -> None:
        """Complete an fp32 array `[size]`, of which each rank has updated its own numbers."""
        ...

    def broadcast(self, array: Tensor) -> None:
        """Copy an array of any shape from rank 0 to all other ranks."""
        ...
