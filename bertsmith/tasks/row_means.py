"""Means over the rows of an example, such as the windows of a long text."""

import torch
from torch import Tensor

from bertsmith.data.batches import Batch


def mean_over_rows(values: Tensor, batch: Batch) -> Tensor:
    """Average over each example's rows: `[sequences, columns]` to `[examples, columns]`.

    The result has the dtype of `values`. `batch.targets` has the index of each sequence's example
    (`example`) and the number of examples (`num_examples`).
    """
    example_of_row = batch.targets["example"]
    num_examples = int(batch.targets["num_examples"])
    sums = values.new_zeros(num_examples, values.shape[1]).index_add(0, example_of_row, values)
    num_rows = torch.bincount(example_of_row, minlength=num_examples)
    return sums / num_rows[:, None]
