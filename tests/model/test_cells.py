"""Cells hold the tokens of a packed row, and give every number and gradient back to its place."""

import numpy as np
import pytest
import torch

from bertsmith.model.cells import gather, gather_blocks, put_back
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


@pytest.mark.parametrize("is_joint", [False, True])
def test_blocks_of_a_row_go_to_their_cells_and_back_with_their_gradients(is_joint):
    num_tokens, num_rows = sum(LENGTHS), 113
    array = torch.randn(num_rows, 3, HEADS, SIZE).requires_grad_()
    parts = array.unbind(1) if is_joint else [part.clone() for part in array.unbind(1)]
    row = PackedRow(LENGTHS, CPU)
    cells = [row.cells(0, 3), row.cells(3, 4), row.cells(4, 5)]
    blocks = list(gather_blocks(parts, [(each, each, each) for each in cells]))
    firsts = [0, sum(LENGTHS[:3]), sum(LENGTHS[:4])]
    for first, block, each in zip(firsts, blocks, cells, strict=True):
        for part, gathered in zip(parts, block, strict=True):
            (expected,) = gather((part[first : first + each.num_tokens],), (each,))
            assert torch.equal(gathered, expected)
    weights = torch.randn(num_rows, HEADS * SIZE)
    for number, part in enumerate(parts):
        back = put_back([block[number] for block in blocks], cells, num_rows)
        assert torch.equal(back[:num_tokens], part[:num_tokens].flatten(1))
        assert not back[num_tokens:].any()
        (gradient,) = torch.autograd.grad((back * weights).sum(), array, retain_graph=True)
        expected_gradient = torch.zeros_like(array)
        expected_gradient[:num_tokens, number] = weights[:num_tokens].view(-1, HEADS, SIZE)
        assert torch.equal(gradient, expected_gradient)


@pytest.mark.parametrize("num_sequences", [1, 5, 13, 5])
def test_single_cells_go_back_after_an_evaluation_too(num_sequences):
    cells = PackedRow((1,) * num_sequences, CPU, pads=False).cells(0, num_sequences)
    heads = torch.randn(num_sequences, HEADS, SIZE)
    with torch.inference_mode():
        (read,) = gather((heads,), (cells,))
        assert torch.equal(cells.put_back(read), heads.flatten(1))
    heads.requires_grad_()
    (gathered,) = gather((heads,), (cells,))
    assert torch.equal(
        gathered[num_sequences:], heads[-1:, :, None].expand_as(gathered[num_sequences:])
    )
    weights = torch.randn(num_sequences, HEADS * SIZE)
    (gradient,) = torch.autograd.grad((cells.put_back(gathered) * weights).sum(), heads)
    assert torch.equal(gradient.flatten(1), weights)


def test_columns_are_those_of_the_batch_or_count_from_the_start():
    plain = PackedRow((3, 2), CPU)
    assert plain.cells(0, 2).cell_columns.tolist() == list(range(16))
    with_holes = PackedRow((3, 2), CPU, np.array([0, 2, 5, 1, 2]))
    columns = with_holes.cells(0, 2).cell_columns
    assert columns[0, :3].tolist() == [0, 2, 5] and columns[1, :2].tolist() == [1, 2]
