import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bertsmith.model.dropout import dropout, dropout_seed


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
