"""Cells hold the tokens of a packed row, and give every number and gradient back to its place."""

import numpy as np
import pytest
import torch

from bertsmith.model.cells import gather
from bertsmith.model.packed_row import PackedRow

CPU = torch.device("cpu")
LENGTHS = (37, 31, 31, 7, 1)
HEADS, SIZE = 3, 4


@pytest.mark.parametrize("is_part", [False, True])
def test_tokens_go_to_their_cells_and_back(is_part):
    array = torch.randn(sum(LENGTHS), 3, HEADS, SIZE)
    heads = (array[:, 1] if is_part else array[:, 1].contiguous()).requires_grad_()
    cells = PackedRow(LENGTHS, CPU).cells(0, len(LENGTHS))
    gathered, _, _ = gather((heads, heads, heads), (cells, cells, cells))
    assert gathered.shape == (cells.num_rows, HEADS, cells.length, SIZE)
    for row, part in enumerate(heads.split(LENGTHS)):
        of_sequence = gathered[row].transpose(0, 1)
        assert torch.equal(of_sequence[: len(part)], part)
        # Cells beyond a sequence repeat its last token.
        assert torch.equal(of_sequence[len(part) :], part[-1:].expand_as(of_sequence[len(part) :]))
    assert torch.equal(cells.put_back(gathered), heads.flatten(1))


def test_gradients_reach_real_tokens_alone():
    heads = torch.randn(sum(LENGTHS), HEADS, SIZE).requires_grad_()
    cells = PackedRow(LENGTHS, CPU).cells(0, len(LENGTHS))
    gathered, _, _ = gather((heads, heads, heads), (cells, cells, cells))
    weights = torch.randn_like(gathered)
    (gradient,) = torch.autograd.grad((gathered * weights).sum(), heads)
    expected = [weights[row, :, :length].transpose(0, 1) for row, length in enumerate(LENGTHS)]
    assert torch.equal(gradient, torch.cat(expected))
    context = gathered.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(cells.put_back(context).sum(), context)
    is_real = torch.from_numpy(cells.is_real)[:, None, :, None]
    assert torch.equal(gradient, is_real.expand_as(gradient).float())


def test_columns_are_those_of_the_batch_or_count_from_the_start():
    plain = PackedRow((3, 2), CPU)
    assert plain.cells(0, 2).cell_columns.tolist() == list(range(16))
    with_holes = PackedRow((3, 2), CPU, np.array([0, 2, 5, 1, 2]))
    columns = with_holes.cells(0, 2).cell_columns
    assert columns[0, :3].tolist() == [0, 2, 5] and columns[1, :2].tolist() == [1, 2]
