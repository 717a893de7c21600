import math

import pytest
import torch

from bertsmith.model.row_maximum import BLOCK, row_maximum


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("columns", [1, 7, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK + 19])
@pytest.mark.parametrize("shift", [0.0, 100.0, -100.0])
def test_value_and_first_place(dtype: torch.dtype, columns: int, shift: float) -> None:
    generator = torch.Generator().manual_seed(columns)
    # Few different numbers, so that the highest stands in several places.
    x = torch.randint(-9, 10, (41, columns), generator=generator).to(dtype) + shift
    values, places = row_maximum(x)
    torch.testing.assert_close(values, x.amax(-1, keepdim=True), atol=0.0, rtol=0.0)
    first = [row.index(max(row)) for row in x.tolist()]
    assert places.squeeze(-1).tolist() == first


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_each_place_may_be_the_highest(dtype: torch.dtype) -> None:
    columns = 3 * BLOCK + 5
    _, places = row_maximum(torch.eye(columns, dtype=dtype))
    assert places.squeeze(-1).tolist() == list(range(columns))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_infinities_and_no_rows(dtype: torch.dtype) -> None:
    x = torch.full((2, 3 * BLOCK), -math.inf, dtype=dtype)
    x[1, 700] = math.inf
    values, places = row_maximum(x)
    assert values.squeeze(-1).tolist() == [-math.inf, math.inf]
    assert places.squeeze(-1).tolist() == [0, 700]
    assert [len(part) for part in row_maximum(x[:0])] == [0, 0]
