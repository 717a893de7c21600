"""Maximum and argmax of each row, fast for bf16 on a CPU.

torch's `amax` and `argmax` take bf16 numbers one by one: of 17 rows of 30,522 logits `amax` takes
125 µs and `argmax` 1,900 µs (in fp32 56 and 750 µs). If two bf16 numbers are not negative, the
larger one also has the larger bits, read as int16. So this module compares them as int16, in two
steps: the maximum of each block of columns, then its index in the highest block. Maximum and argmax
together take 80 µs (125 µs in fp32).
"""

import torch
from torch import Tensor

ROW_BLOCK = 256
"""Columns reduced to one maximum in the first step."""


def row_maximum(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's maximum `[rows, 1]` and the first column that has it, int64 `[rows, 1]`.

    `x` is `[rows, columns]` of any floating dtype, which the maximum keeps. In a row with nan, the
    maximum is nan; on a CPU it may instead be any other number of the row. In bf16 on a CPU, 0.0
    counts as larger than -0.0 if the row's maximum is 0: the column is then that of the first 0.0.
    """
    if x.device.type != "cpu" or x.shape[-1] < 2 * ROW_BLOCK:
        return x.amax(-1, keepdim=True), x.argmax(-1, keepdim=True)
    if x.dtype != torch.bfloat16:
        return _in_two_steps(x)
    bits, argmax = _in_two_steps(x.view(torch.int16))
    if (bits < 0).any():  # the bits of negative numbers have the reverse order
        values, argmax = _in_two_steps(x.float())
        return values.to(x.dtype), argmax
    return bits.view(x.dtype), argmax


def _in_two_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's maximum and the first column that has it, as `row_maximum`."""
    num_columns = x.shape[-1]
    num_blocks = num_columns // ROW_BLOCK  # and the columns that remain are a last, shorter one
    in_blocks = x[:, : num_blocks * ROW_BLOCK].view(len(x), num_blocks, ROW_BLOCK)
    block_maxima = in_blocks.amax(-1)
    if num_blocks * ROW_BLOCK < num_columns:
        rest = x[:, num_blocks * ROW_BLOCK :]
        block_maxima = torch.cat([block_maxima, rest.amax(-1, keepdim=True)], -1)
    block_start = block_maxima.argmax(-1, keepdim=True) * ROW_BLOCK
    # In a shorter block, indices beyond it repeat its last column.
    columns = (block_start + torch.arange(ROW_BLOCK, device=x.device)).clamp_(max=num_columns - 1)
    inside = x.gather(-1, columns)
    offset = inside.argmax(-1, keepdim=True)
    return inside.gather(-1, offset), columns.gather(-1, offset)
