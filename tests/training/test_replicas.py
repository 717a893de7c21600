"""Copies of a model: one memory of weights, gradients apart, results in order."""

import threading

import pytest
import torch
from torch import nn

from bertsmith.training.replicas import Replicas, share_weights


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def test_weights_are_shared_and_gradients_are_not() -> None:
    first = model()
    second = share_weights(first)
    assert [name for name, _ in second.named_parameters()] == [
        name for name, _ in first.named_parameters()
    ]
    with torch.no_grad():
        first[0].weight.fill_(0.5)
    assert torch.equal(second[0].weight, first[0].weight)
    second(torch.ones(1, 3)).sum().backward()
    assert second[0].weight.grad is not None
    assert first[0].weight.grad is None


def test_results_come_in_the_order_of_the_items() -> None:
    models = [model() for _ in range(3)]
    with Replicas(models) as replicas:
        assert replicas.map(lambda one, item: (models.index(one), item), [7, 8, 9]) == [
            (0, 7), (1, 8), (2, 9),
        ]  # fmt: skip
        assert replicas.map(lambda one, item: (models.index(one), item), [7]) == [(0, 7)]
        threads = set(replicas.map(lambda *_: threading.get_ident(), [1, 2, 3]))
        assert threading.get_ident() not in threads
    assert not any(thread.name.startswith("replica") for thread in threading.enumerate())


def test_a_single_model_computes_in_the_calling_thread() -> None:
    with Replicas([model()]) as replicas:
        assert replicas.map(lambda *_: threading.get_ident(), [1]) == [threading.get_ident()]


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    with Replicas([model(), model()]) as replicas:
        inside = replicas.map(lambda *_: torch.get_num_threads(), [1, 2])
    assert inside == [max(1, before // 2)] * 2
    assert torch.get_num_threads() == before


def test_an_error_in_a_copy_is_raised() -> None:
    def broken(one: nn.Module, item: int) -> int:
        return 1 // item

    with Replicas([model(), model()]) as replicas, pytest.raises(ZeroDivisionError):
        replicas.map(broken, [1, 0])
