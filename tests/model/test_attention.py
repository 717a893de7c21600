import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.model.attention import (
    FREE_PADDING,
    MAX_PADDING,
    MAX_SCORES,
    SelfAttention,
    cut_blocks,
    layout,
)

CPU = torch.device("cpu")
falling = st.lists(st.integers(1, 600), min_size=1, max_size=80).map(
    lambda lengths: tuple(sorted(lengths, reverse=True))
)


@given(falling)
def test_blocks_hold_every_sequence_once_and_little_padding(lengths: tuple[int, ...]) -> None:
    blocks = cut_blocks(lengths, MAX_SCORES)
    assert [i for first, end in blocks for i in range(first, end)] == list(range(len(lengths)))
    for first, end in blocks:
        cells = (end - first) * lengths[first]
        padding = cells - sum(lengths[first:end])
        assert padding <= max(MAX_PADDING * cells, FREE_PADDING)
        assert cells * lengths[first] <= MAX_SCORES or end - first == 1


def test_equal_lengths_are_one_block() -> None:
    (block,) = layout((32,) * 16, CPU)
    assert (block.num_sequences, block.num_rows, block.length, block.padding) == (16, 16, 32, None)
    (block,) = layout((31,) * 17, CPU)
    assert (block.num_sequences, block.num_rows, block.length) == (17, 20, 32)
    assert block.padding is not None
    (block,) = layout((31,) * 17, torch.device("meta"))
    assert (block.num_sequences, block.num_rows, block.length, block.padding) == (17, 17, 31, None)


def test_few_shapes_occur() -> None:
    """Each costs oneDNN milliseconds the first time; see model/sizes.py."""
    generator = torch.Generator().manual_seed(0)
    shapes = set()
    for _ in range(300):
        lengths = torch.randint(5, 129, (32,), generator=generator).sort(descending=True)[0]
        shapes |= {(block.num_rows, block.length) for block in layout(tuple(lengths.tolist()), CPU)}
    assert len(shapes) < 80


def attention_by_the_formula(module: SelfAttention, hidden: torch.Tensor) -> torch.Tensor:
    """One sequence, one head at a time: softmax(QK^T / sqrt(d)) V."""
    query, key, value = module.qkv(hidden).chunk(3, -1)
    size = hidden.shape[-1] // module.num_heads
    heads = [
        (q @ k.T / math.sqrt(size)).softmax(-1) @ v
        for q, k, v in zip(*(x.split(size, -1) for x in (query, key, value)), strict=True)
    ]
    return module.output(torch.cat(heads, -1))


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("lengths", [(13,), (13, 13, 13), (23, 19, 7, 7, 3, 1), (128, 31, 2)])
def test_every_sequence_attends_to_itself_alone(
    lengths: tuple[int, ...], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertsmith.model.attention.attention_path", lambda *_: path)
    torch.manual_seed(0)
    module = SelfAttention(33, 3, 0.0)
    hidden = torch.randn(sum(lengths), 33, requires_grad=True)
    gradient = torch.randn(sum(lengths), 33)
    found = module(hidden, layout(lengths, CPU))[: sum(lengths)]
    expected = torch.cat([attention_by_the_formula(module, x) for x in hidden.split(lengths)])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, hidden, gradient)[0],
        torch.autograd.grad(expected, hidden, gradient)[0],
    )


def test_the_fused_kernel_gives_the_same_numbers() -> None:
    torch.manual_seed(0)
    module = SelfAttention(33, 3, 0.0)
    for block in layout((23, 19, 17, 17), CPU):
        heads = torch.randn(3, block.num_rows, 3, block.length, 11)
        torch.testing.assert_close(
            module.fused(*heads, block), module.explicit(*heads, block, None)
        )


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("lengths", [(13,), (13, 13, 13), (23, 19, 7, 7, 3, 1)])
def test_first_tokens_alone_are_the_same(
    lengths: tuple[int, ...], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertsmith.model.attention.attention_path", lambda *_: path)
    torch.manual_seed(0)
    module = SelfAttention(33, 3, 0.0)
    hidden = torch.randn(sum(lengths), 33)
    firsts = [sum(lengths[:i]) for i in range(len(lengths))]
    alone = module(hidden, layout(lengths, CPU), first_only=True)[: len(lengths)]
    torch.testing.assert_close(alone, module(hidden, layout(lengths, CPU))[firsts])
