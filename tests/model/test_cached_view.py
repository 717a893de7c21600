"""With kept keys and values, new tokens get what a pass over all tokens gives them."""

import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import dense_attention
from bertsmith.model.attention import SelfAttention
from bertsmith.model.cached_view import KeyValueCache

CPU = torch.device("cpu")
HEADS, SIZE = 3, 8
HIDDEN = HEADS * SIZE
# A prompt for each sequence, then single tokens, and several at once; the last begins alone.
STEPS = [(20, 3, 33, 1), (1, 1, 1, 1), (1, 1, 1, 1), (2, 5, 1, 40), (1, 1, 1, 1)]
TOTALS = [sum(lengths) for lengths in zip(*STEPS, strict=True)]


def attend_alone(module, hidden):
    """Compute one whole sequence, [tokens, hidden] in and out."""
    heads = module.qkv(hidden).view(1, len(hidden), 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
    context = F.scaled_dot_product_attention(*heads, is_causal=True)
    return module.output(context[0].transpose(0, 1).flatten(1))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_each_step_equals_a_pass_over_all_tokens(path, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: path == "fused")
    torch.manual_seed(0)
    layers = [SelfAttention(HIDDEN, HEADS, 0.0) for _ in range(2)]
    sequences = [torch.randn(length, HIDDEN) for length in TOTALS]
    cache = KeyValueCache(len(layers), len(sequences), CPU)
    with torch.no_grad():
        expected = []
        for hidden in sequences:
            for layer in layers:
                hidden = attend_alone(layer, hidden)
            expected.append(hidden)
        for lengths in STEPS:
            new = cache.read(lengths)
            ranges = list(zip(new.before, new.totals, strict=True))
            hidden = torch.cat(
                [each[first:end] for each, (first, end) in zip(sequences, ranges, strict=True)]
            )
            assert new.columns.tolist() == [i for first, end in ranges for i in range(first, end)]
            for layer, view in zip(layers, cache.views, strict=True):
                hidden = layer(hidden, view)
            wanted = [each[first:end] for each, (first, end) in zip(expected, ranges, strict=True)]
            wanted = torch.cat(wanted)
            torch.testing.assert_close(hidden[: len(wanted)], wanted, atol=1e-6, rtol=1e-5)
    assert list(cache.lengths) == TOTALS


def test_sequences_that_are_kept_go_on_alone():
    torch.manual_seed(0)
    layer = SelfAttention(HIDDEN, HEADS, 0.0)
    sequences = [torch.randn(length, HIDDEN) for length in (4, 9, 6)]
    cache = KeyValueCache(1, len(sequences), CPU)
    with torch.no_grad():
        cache.read((3, 8, 5))
        layer(torch.cat([each[:-1] for each in sequences]), cache.views[0])
        cache.keep([1, 2])
        assert cache.lengths == (8, 5)
        cache.read((1, 1))
        hidden = layer(torch.stack([each[-1] for each in sequences[1:]]), cache.views[0])[:2]
        expected = torch.stack([attend_alone(layer, each)[-1] for each in sequences[1:]])
    torch.testing.assert_close(hidden, expected, atol=1e-6, rtol=1e-5)
