import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bertsmith.model.dropout import dropout, dropout_seed


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_share_and_mean_are_those_of_dropout(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    count = 1_000_003
    out = dropout(torch.ones(count, dtype=dtype), p, training=True).float()
    kept = (out != 0).float()
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs(kept.mean().item() - (1 - p)) < 5 * deviation
    assert out.mean().item() == pytest.approx(1.0, abs=5 * deviation / (1 - p) + 4e-3)
    assert len(out.unique()) == 2
    for lag in (1, 2, 3, 4, 17):  # neighbours are cut from one random number
        together = (kept[lag:] * kept[:-lag]).mean().item()
        assert together == pytest.approx((1 - p) ** 2, abs=8 * deviation)


def test_gradient_passes_where_the_value_passed() -> None:
    x = torch.randn(7, 31, requires_grad=True)
    out = dropout(x, 0.3, training=True)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)


def test_same_seed_same_mask() -> None:
    x = torch.ones(7, 5, 3)
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout(x, 0.5, training=True))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_a_seed_holds_for_its_thread_alone() -> None:
    x = torch.ones(7, 5, 3)

    def drawn(seed: int) -> torch.Tensor:
        with dropout_seed(seed, x.device):
            start.wait()
            return dropout(x, 0.5, training=True)

    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(drawn, [3, 4]))
        second = list(pool.map(drawn, [4, 3]))
    assert torch.equal(first[0], second[1])
    assert torch.equal(first[1], second[0])
    assert not torch.equal(first[0], first[1])
    torch.manual_seed(5)
    outside = dropout(x, 0.5, training=True)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5, training=True), outside)


def test_off_outside_training_and_at_zero() -> None:
    x = torch.ones(5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_almost_everything_dropped_stays_finite() -> None:
    assert dropout(torch.ones(1009), 0.9999999, training=True).isfinite().all()
