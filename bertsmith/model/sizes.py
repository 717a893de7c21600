"""How many rows a product is computed with: counts are rounded up, so that few ever occur.

On a CPU oneDNN writes machine code for every product of a new shape, and packed batches have
another number of tokens each time. Where the processor has AMX, that takes 3 to 8 ms, several
times the product itself (4,000 x 128 by 128 x 128 in bf16: 0.5 ms): a tiny model trained at 16,000
tokens a second with the counts as they came. Rows beyond the real ones are zero at first and are
read by nobody.
"""

import torch
from torch import Tensor

SMALLEST = 16
"""Rows of one AMX tile; smaller steps would save nothing."""

STEPS = 16
"""How many counts there are from one power of two to the next: 3 % more rows on average."""


def rounded_up(count: int, steps: int = STEPS, smallest: int = SMALLEST) -> int:
    """The next count that products are computed with; from one power of two to the next `steps`.

    >>> [rounded_up(count) for count in (1, 100, 1000, 4000, 4097)]
    [16, 112, 1024, 4096, 4352]
    """
    step = max(smallest, (1 << (count - 1).bit_length()) // (2 * steps))
    return -(-count // step) * step


def fill_up(*parts: Tensor) -> Tensor:
    """The rows of all `parts`, one part after the other, and rows of zeros to a rounded count.

    On other devices than a CPU there are no further rows.
    """
    first = parts[0]
    missing = 0
    if first.device.type == "cpu":
        count = sum(map(len, parts))
        missing = rounded_up(count) - count
    if not missing:
        return first if len(parts) == 1 else torch.cat(parts)
    return torch.cat([*parts, first.new_zeros(missing, *first.shape[1:])])
