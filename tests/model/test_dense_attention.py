"""Plain products compute what torch's attention does, with a bias of any shape."""

import pytest
import torch
import torch.nn.functional as F

from bertsmith.model.dense_attention import compute_weights

ROWS, HEADS, QUERIES, KEYS, SIZE = 2, 3, 5, 7, 4


@pytest.mark.parametrize(
    "shape",
    [
        None,
        (ROWS, 1, 1, KEYS),
        (ROWS, 1, QUERIES, KEYS),
        (1, HEADS, QUERIES, KEYS),
        (ROWS, HEADS, 1, KEYS),
    ],
)
def test_weights_and_gradients_are_those_of_torch(shape):
    torch.manual_seed(0)
    query = torch.randn(ROWS, HEADS, QUERIES, SIZE, dtype=torch.float64).requires_grad_()
    key = torch.randn(ROWS, HEADS, KEYS, SIZE, dtype=torch.float64).requires_grad_()
    value = torch.randn(ROWS, HEADS, KEYS, SIZE, dtype=torch.float64)
    inputs = [query, key]
    bias = None
    if shape is not None:
        bias = torch.randn(shape, dtype=torch.float64).requires_grad_()
        inputs.append(bias)
    mask = None if bias is None else bias.expand(ROWS, HEADS, QUERIES, KEYS)
    results = (
        compute_weights(query, key, bias) @ value,
        F.scaled_dot_product_attention(query, key, value, mask),
    )
    for mine, theirs in zip(
        *((each, *torch.autograd.grad(each.square().sum(), inputs)) for each in results),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-9)
