"""Exchange gradients and weights between ranks by the collectives of torch.distributed.

A rank is one of the machines or GPUs that train together. Each rank sums gradients and updates
weights in its own range, as in ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054, stage 2). All
weights are in one flat array, as are all gradients, so a step needs only two collectives.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from bertsmith.training.flat_parameters import Layout
from bertsmith.training.optim import parts_of_parameters
from bertsmith.training.workers.share import Plan

# torch 2.13 has new names for both, and warns about the old ones.
reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


class CollectiveExchange:
    """An exchange by the collectives of torch.distributed.

    `reduce`, `all_gather` and `broadcast` are those of the protocol `Exchange` (exchange.py).
    An update rule such as Muon updates a matrix as a whole. So one rank updates the whole matrix,
    although the matrix may lie in the ranges of two ranks. Such parameters are exchanged separately
    from the ranges.

    Args:
        group: all ranks.
        plan: says which rank this is, and how a step is divided.
        layout: the order of the parameters in the flat arrays.
    """

    def __init__(self, group: dist.ProcessGroup, plan: Plan, layout: Layout) -> None:
        self._group = group
        self._plan = plan
        first, end = layout.divide(plan.num_ranks)[plan.rank]
        self._own = slice(first, end)
        parts = parts_of_parameters(layout, plan.all_shares, plan.optim)
        self._whole_parameters = [
            # The weights have a part for each share of a step; parts are numbered rank by rank.
            (slice(slot.first, slot.end), part // plan.num_shares)
            for slot, part in parts.items()
        ]
        """The range of each parameter that one rank updates as a whole, and the rank's number."""

    def reduce(self, gradients: Tensor) -> None:
        total = gradients[0]
        if self._plan.is_exact:
            self._sum_in_order(gradients)
        else:  # `Share.sum_shares` has summed the shares of this rank into `total`
            reduce_scatter(total[self._own], total, group=self._group)
        if self._whole_parameters:  # the rank that updates one needs its gradient in all ranges
            self._gather_ranges(total)

    def _sum_in_order(self, gradients: Tensor) -> None:
        """Sum this rank's range of the gradients share by share, in one order for all ranks.

        Shares are ordered as they get micro-batches: the first share of each rank, then the second
        share of each, and so on.
        """
        received = torch.empty_like(gradients[0])
        by_rank = received.view(self._plan.num_ranks, -1)  # this rank's range, from each rank
        total = gradients[0, self._own]
        for index, gradient in enumerate(gradients):
            dist.all_to_all_single(received, gradient, group=self._group)
            for rank in range(self._plan.num_ranks):
                if index == 0 and rank == 0:
                    total.copy_(by_rank[0])
                else:
                    total += by_rank[rank]

    def all_gather(self, array: Tensor) -> None:
        if not self._whole_parameters:
            self._gather_ranges(array)
            return
        # Each rank sends the parameters that it has updated, and zeros for the others. They are
        # added as integers, so that every bit of the numbers is kept. They are copied out of the
        # array before ranges are gathered, which overwrites them with old numbers, and put back
        # after it.
        bits = torch.cat([array[span].view(torch.int32) for span, _ in self._whole_parameters])
        sizes = [span.stop - span.start for span, _ in self._whole_parameters]
        parameters = torch.split(bits, sizes)
        for parameter, (_, rank) in zip(parameters, self._whole_parameters, strict=True):
            if rank != self._plan.rank:
                parameter.zero_()
        dist.all_reduce(bits, group=self._group)
        self._gather_ranges(array)
        for parameter, (span, _) in zip(parameters, self._whole_parameters, strict=True):
            array[span].copy_(parameter.view(torch.float32))

    def _gather_ranges(self, array: Tensor) -> None:
        all_gather(array, array[self._own], group=self._group)

    def broadcast(self, array: Tensor) -> None:
        dist.broadcast(array, src=0, group=self._group)
