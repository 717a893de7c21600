"""Exchange between ranks (machines or GPUs): gradients before an update, weights after it."""

from typing import Protocol

from torch import Tensor


class Exchange(Protocol):
    """One rank's exchange of gradients and weights with the others."""

    def reduce(self, gradients: Tensor) -> None:
        """Sum the gradients of all ranks into the first row of this rank's gradients.

        The sum is complete only for the weights that this rank updates: those in its range, and
        parameters that it updates as a whole.

        Args:
            gradients: fp32 `[num_shares, size]`, a row for each share of a step. A share is some of
                a step's micro-batches, which one worker process computes.
        """
        ...

    def all_gather(self, array: Tensor) -> None:
        """Complete an fp32 array `[size]`, in which each rank has updated its own range."""
        ...

    def broadcast(self, array: Tensor) -> None:
        """Copy an array of any shape from rank 0 to all other ranks."""
        ...
