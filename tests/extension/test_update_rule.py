"""Two toy update rules in one file, beside AdamW: one of any parameters, one of whole matrices."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from test_objective import line_workers, train
from torch import Tensor
from torch_threads import threads

from bertsmith.model.trainable import ParameterSpec
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.training.settings import OptimSettings
from bertsmith.training.update_rules.rule import UpdateRule, UpdateStep


class Momentum:
    buffers = ("velocity",)
    granularity = "chunk"

    def accepts(self, spec: ParameterSpec) -> bool:
        return spec.kind == "vector"

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        buffers["velocity"].mul_(0.9).add_(gradient / change.divisor)
        weights.sub_(change.rate * buffers["velocity"])


class UnitSteps:
    """Steps of one length for each matrix, as Muon's depend on a whole matrix."""

    buffers = ("total",)
    granularity = "parameter"

    def accepts(self, spec: ParameterSpec) -> bool:
        return spec.name == "inner.weight"

    def step(
        self, weights: Tensor, gradient: Tensor, buffers: Mapping[str, Tensor], change: UpdateStep
    ) -> None:
        assert weights.shape == gradient.shape == (70, 5)
        buffers["total"].add_(gradient)
        weights.sub_(change.rate * buffers["total"] / buffers["total"].norm())


@dataclass(frozen=True)
class ToySettings(OptimSettings):
    def extra_rules(self) -> tuple[UpdateRule, ...]:
        return (UnitSteps(), Momentum())


SETTINGS = ToySettings(learning_rate=1e-2)
STATE = ["velocity/inner.bias", "velocity/outer.bias", "total/inner.weight",
         "exp_avg/outer.weight", "exp_avg_sq/outer.weight"]  # fmt: skip


def test_a_rule_trains_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    with threads(1):
        whole, first, second = (line_workers(2, SETTINGS) for _ in range(3))
        expected = train(whole, 1, 9)  # not entered: one process does the work of both
        with first:
            first.wait()
            found = train(first, 1, 5)
            assert sorted(first.state_dict()) == sorted(STATE)
            write_safetensors(tmp_path / "state.safetensors", first.state_dict())
            second.model.load_state_dict(first.model.state_dict())
        second.load_state_dict(read_safetensors(tmp_path / "state.safetensors"))
        found += train(second, 5, 9)
    assert found == expected
    assert torch.equal(second.arrays.weights, whole.arrays.weights)
