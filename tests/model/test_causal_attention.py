"""A packed causal row is the padded causal computation, and picked tokens are those of the row."""

import pytest
import torch
import torch.nn.functional as F
from measured_bytes import ARE_BYTES_MEASURED

from bertsmith.model import dense_attention
from bertsmith.model.attention_pattern import CAUSAL, FULL, AttentionPattern
from bertsmith.model.block_cuts import padded_length
from bertsmith.model.dense_attention import softmax
from bertsmith.model.row_layout import RowLayout

CPU = torch.device("cpu")
LENGTHS = tuple(range(129, 0, -1))
HEADS, SIZE = 3, 16


@pytest.fixture(params=["explicit", "fused"])
def path(request, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: request.param == "fused")
    return request.param


def draw(num_tokens):
    """Draw queries, keys and values as parts of one array, as projections give them."""
    torch.manual_seed(0)
    return torch.randn(num_tokens, 3, HEADS, SIZE)


def attend_padded(query, key, value, path):
    """Compute one sequence alone, padded with zeros: [length, heads, size] in and out."""
    length = len(query)
    padded = padded_length(length)
    query, key, value = (
        F.pad(part.transpose(0, 1), (0, 0, 0, padded - length)) for part in (query, key, value)
    )
    is_seen = torch.ones(padded, padded, dtype=torch.bool).tril()
    is_seen[:, length:] = False
    bias = torch.zeros(padded, padded).masked_fill(~is_seen, -torch.inf)
    if path == "fused":
        heads = F.scaled_dot_product_attention(query[None], key[None], value[None], bias)[0]
    else:
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=SIZE**-0.5)
        heads = softmax(scores) @ value
    return heads[:, :length].transpose(0, 1)


def test_a_packed_row_has_the_bits_of_the_padded_computation(path):
    parts = draw(sum(LENGTHS)).unbind(1)
    with torch.no_grad():
        context = RowLayout(LENGTHS, CPU, by_length=True).view(CAUSAL).attend(*parts)
        sequences = zip(*(part.split(LENGTHS) for part in parts), strict=True)
        expected = torch.cat([attend_padded(*each, path) for each in sequences]).flatten(1)
    context = context[: len(expected)]
    if ARE_BYTES_MEASURED:
        assert torch.equal(context, expected)
    torch.testing.assert_close(context, expected, atol=2e-6, rtol=0.0)


def test_a_packed_row_and_its_gradients_are_those_of_each_sequence(path):
    heads = draw(sum(LENGTHS)).requires_grad_()
    weights = torch.randn(sum(LENGTHS), HEADS * SIZE)
    context = RowLayout(LENGTHS, CPU).view(CAUSAL).attend(*heads.unbind(1))[: len(weights)]
    sequences = [part.permute(1, 2, 0, 3) for part in heads.split(LENGTHS)]
    expected = torch.cat(
        [
            F.scaled_dot_product_attention(*each, is_causal=True).transpose(0, 1).flatten(1)
            for each in sequences
        ]
    )
    torch.testing.assert_close(context, expected, atol=1e-6, rtol=1e-6)
    (gradient,) = torch.autograd.grad((context * weights).sum(), heads)
    (expected,) = torch.autograd.grad((expected * weights).sum(), heads)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("with_holes", [False, True])
@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [FULL, CAUSAL, AttentionPattern(window=3), AttentionPattern(True, window=3)],
)
def test_picked_tokens_are_those_of_the_row(pattern, by_length, with_holes, path):
    lengths = (37, 31, 31, 7, 1)
    columns = torch.cat([2 * torch.arange(length) for length in lengths]) if with_holes else None
    layout = RowLayout(lengths, CPU, columns=columns, by_length=by_length)
    heads = draw(sum(lengths)).requires_grad_()
    whole = layout.view(pattern).attend(*heads.unbind(1))
    for picked in (layout.pick_first_tokens(), layout.pick_last_tokens()):
        context = layout.view(pattern, picked).attend(*heads.unbind(1))[: len(lengths)]
        torch.testing.assert_close(context, whole[picked.index], atol=1e-6, rtol=0.0)
        gradients = [
            torch.autograd.grad(each.square().sum(), heads, retain_graph=True)[0]
            for each in (context, whole[picked.index])
        ]
        torch.testing.assert_close(*gradients, atol=1e-5, rtol=0.0)
