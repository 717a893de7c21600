"""Rounded counts: never fewer, few in number, and rows that are zeros."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.model.shape_buckets import SMALLEST, STEPS, fill_up, rounded_up


@given(st.integers(1, 10**6))
def test_a_rounded_count_is_at_least_the_count_and_little_more(count: int) -> None:
    rounded = rounded_up(count)
    assert count <= rounded < count + max(SMALLEST, count / (STEPS - 1))
    assert rounded_up(rounded) == rounded


def test_few_counts_occur() -> None:
    assert len({rounded_up(count) for count in range(2049, 4097)}) == STEPS
    assert {rounded_up(count, steps=4, smallest=1) for count in range(1, 17)} == {
        1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16,
    }  # fmt: skip


def test_missing_rows_are_zeros() -> None:
    first, second = torch.ones(20, 3), torch.full((7, 3), 2.0)
    filled = fill_up(first, second)
    assert len(filled) == rounded_up(27) == 32
    assert torch.equal(filled[:27], torch.cat([first, second]))
    assert not filled[27:].any()
    whole = torch.ones(32, 3)
    assert fill_up(whole) is whole
    assert len(fill_up(torch.ones(20, 3, device="meta"))) == 20
