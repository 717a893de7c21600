"""Queries of one packed row that see keys of another equal torch's attention per sequence pair."""

import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import dense_attention
from bertsmith.model.attention import CrossAttention
from bertsmith.model.packed_row import PackedRow
from bertsmith.model.packed_view import PackedView
from bertsmith.model.shape_buckets import fill_up

CPU = torch.device("cpu")
HEADS, SIZE = 3, 8
HIDDEN = HEADS * SIZE
TARGETS = (40, 33, 33, 7, 20, 1, 64, 2)
SOURCES = (129, 97, 64, 63, 31, 8, 2, 1)


@pytest.fixture(params=["explicit", "fused"])
def path(request, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: request.param == "fused")
    return request.param


def attend_alone(module, target, source):
    """Compute one pair of sequences, [tokens, hidden] in and out."""
    query = module.query(target)
    key, value = module.key_value(source).chunk(2, -1)
    heads = (part.view(1, len(part), HEADS, SIZE).transpose(1, 2) for part in (query, key, value))
    return module.output(F.scaled_dot_product_attention(*heads)[0].transpose(0, 1).flatten(1))


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("with_padding_rows", [False, True])
def test_pairs_of_a_packed_row_equal_those_computed_alone(by_length, with_padding_rows, path):
    torch.manual_seed(0)
    module = CrossAttention(HIDDEN, HEADS, 0.0).double()
    target, weights = torch.randn(2, sum(TARGETS), HIDDEN, dtype=torch.float64)
    source = torch.randn(sum(SOURCES), HIDDEN, dtype=torch.float64)
    view = PackedView(PackedRow(TARGETS, CPU), PackedRow(SOURCES, CPU), by_length=by_length)
    results = []
    for is_packed in (True, False):
        rows = target.clone().requires_grad_(), source.clone().requires_grad_()
        if is_packed:
            read, seen = map(fill_up, rows) if with_padding_rows else rows
            vectors = module(read, module.project(seen), view)[: len(target)]
        else:
            pairs = zip(rows[0].split(TARGETS), rows[1].split(SOURCES), strict=True)
            vectors = torch.cat([attend_alone(module, *pair) for pair in pairs])
        inputs = [*rows, *module.parameters()]
        results.append((vectors, *torch.autograd.grad((vectors * weights).sum(), inputs)))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


def test_weights_pass_through_a_function():
    torch.manual_seed(0)
    module = CrossAttention(HIDDEN, HEADS, 0.0)
    view = PackedView(PackedRow((5, 2), CPU), PackedRow((9, 4), CPU))
    target, source = torch.randn(7, HIDDEN), torch.randn(13, HIDDEN)
    seen = []

    def record(blocks):
        seen.extend(blocks)
        return list(blocks)

    kept = module.project(source)
    recorded = module(target, kept, view, record)
    torch.testing.assert_close(recorded[:7], module(target, kept, view)[:7], atol=1e-6, rtol=0.0)
    [weights] = seen
    assert weights.shape[:2] == (2, HEADS)
    assert torch.equal(weights[1, :, :2, 4:], torch.zeros(HEADS, 2, weights.shape[3] - 4))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
