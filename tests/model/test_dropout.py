import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from bertsmith.data.batches import pack
from bertsmith.model.bert import BertModel
from bertsmith.model.dropout import dropout, dropout_seed
from bertsmith.model.families import FAMILIES, build_heads, family_named


@pytest.mark.parametrize(("p", "dtype"), [(0.1, torch.float32), (0.5, torch.bfloat16)])
def test_share_and_mean_are_those_of_dropout(p, dtype):
    torch.manual_seed(1)
    count = 300_007
    out = dropout(torch.ones(count, dtype=dtype), p, training=True).float()
    kept = (out != 0).float()
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs(kept.mean().item() - (1 - p)) < 5 * deviation
    assert out.mean().item() == pytest.approx(1.0, abs=5 * deviation / (1 - p) + 4e-3)
    assert len(out.unique()) == 2
    for lag in (1, 2, 3, 4, 17):  # neighbours are cut from one random number
        together = (kept[lag:] * kept[:-lag]).mean().item()
        assert together == pytest.approx((1 - p) ** 2, abs=8 * deviation)


def test_a_seed_holds_for_its_thread_alone():
    x = torch.ones(7, 5, 3)
    start = threading.Barrier(2)

    def drawn(seed):
        with dropout_seed(seed, x.device):
            start.wait()
            return dropout(x, 0.5, training=True)

    def outside():
        torch.manual_seed(5)
        return dropout(x, 0.5, training=True)

    before = outside()
    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(drawn, [3, 4]))
        second = list(pool.map(drawn, [4, 3]))
    assert torch.equal(first[0], second[1])
    assert torch.equal(first[1], second[0])
    assert not torch.equal(first[0], first[1])
    assert torch.equal(outside(), before)


def test_gradient_passes_where_the_value_passed_and_nothing_is_done_outside_training():
    x = torch.randn(7, 31, requires_grad=True)
    out = dropout(x, 0.3, training=True)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)
    assert dropout(x, 0.5, training=False) is dropout(x, 0.0, training=True) is x
    assert dropout(torch.ones(1009), 0.9999999, training=True).isfinite().all()


LENGTHS = (3, 39, 12, 12, 7, 25, 18, 5)
"""Of sequences that the test below divides among micro-batches in several ways."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", ["classify", "tag"])  # of first tokens, and of every token
def test_how_a_step_is_divided_changes_no_mask(family, head):
    config = family_named(family).config.from_preset("tiny", 50)
    model = BertModel(config, build_heads(config, [head], 3))
    model.set_dropout(0.2)
    model.train()
    rng = np.random.default_rng(0)
    rows = [rng.integers(5, 50, length) for length in LENGTHS]

    def gradients(*division):
        model.zero_grad()
        for number, places in enumerate(division):
            batch = pack([rows[place] for place in places]).with_step_indices(places)
            with dropout_seed(number, model.device, step_key=(1, 2)):
                encoded = model.encode_pooled(batch) if head == "classify" else model.encode(batch)
                model.heads[head](encoded).square().sum().backward()
        found = [parameter.grad for parameter in model.parameters()]
        return torch.cat([each.flatten() for each in found if each is not None])

    expected = gradients(range(8))
    close = {"rtol": 1e-4, "atol": 1e-5 * expected.abs().max().item()}
    torch.testing.assert_close(gradients([5, 0, 2], [7, 6], [1], [4, 3]), expected, **close)
    torch.testing.assert_close(gradients(range(4), range(4, 8)), expected, **close)
