"""Exchange between ranks in a step: gradients before the update, weights after it."""

from typing import Protocol

from torch import Tensor


class Exchange(Protocol):
    """What one rank gives to the others and takes from them."""

    def reduce(self, gradients: Tensor) -> None:
        """Sum gradients of all ranks, fp32 `[num_members, size]`, into the first row.

        It is complete in this rank's range, and in the parameters that it updates as a whole.
        """
        ...

    def publish(self, array: Tensor) -> None:
        """Complete an fp32 array `[size]`, of which each rank has what it updates."""
        ...

    def share(self, array: Tensor) -> None:
        """Copy an array from rank 0 to all others."""
        ...
