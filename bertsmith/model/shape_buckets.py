"""Padding of arrays to rounded row counts, so that a CPU computes with few different shapes.

On a CPU torch multiplies matrices by oneDNN. That library generates machine code for every product
of a new shape, and packed batches differ in their number of tokens. On processors with AMX (matrix
instructions of Intel) generating code takes 3 to 8 ms, several times as long as the product itself
(4,000 x 128 by 128 x 128 in bf16: 0.5 ms). With exact row counts a tiny model trained only 16,000
tokens a second. Padding rows start as zeros, and no result depends on them.
"""

import torch
from torch import Tensor

MIN_ROW_STEP = 16
"""Rows of one AMX tile; smaller steps would save nothing."""

STEPS = 16
"""Number of row counts from one power of two to the next: 3 % more rows on average."""


def rounded_up(count: int, steps: int = STEPS, smallest: int = MIN_ROW_STEP) -> int:
    """Round up to one of `steps` counts from one power of two to the next.

    These counts are at least `smallest` apart.

    >>> [rounded_up(count) for count in (1, 100, 1000, 4000, 4097)]
    [16, 112, 1024, 4096, 4352]
    """
    power = 1 << (count - 1).bit_length()  # the lowest power of two that is not below `count`
    step = max(smallest, power // (2 * steps))  # `steps` of these lead from power / 2 to power
    return (count + step - 1) // step * step


def filled_up(num_rows: int, device: torch.device) -> int:
    """Return the number of rows that `fill_up` pads `num_rows` to on a device."""
    return rounded_up(num_rows) if device.type == "cpu" else num_rows


def fill_up(*parts: Tensor) -> Tensor:
    """Concatenate `parts`, `[rows, ...]` of one dtype, and pad with zero rows to a rounded count.

    On devices other than a CPU there is no padding.
    """
    first = parts[0]
    count = sum(map(len, parts))
    missing = filled_up(count, first.device) - count
    if not missing:
        return first if len(parts) == 1 else torch.cat(parts)
    return torch.cat([*parts, first.new_zeros(missing, *first.shape[1:])])
