"""Exchange between ranks in a step: gradients before the update, weights after it."""

from typing import Protocol

from torch import Tensor


class Exchange(Protocol):
    """One rank's exchange of gradients and weights with the others."""

    def reduce(self, gradients: Tensor) -> None:
        """Sum the gradients of all ranks, fp32 `[num_shares, size]`, into the first row.

        The sum is complete in this rank's range, and for the parameters that it updates as a whole.
        """
        ...

    def all_gather(self, array: Tensor) -> None:
        """Complete an fp32 array `[size]`, of which each rank has updated its own numbers."""
        ...

    def broadcast(self, array: Tensor) -> None:
        """Copy an array from rank 0 to all others."""
        ...
