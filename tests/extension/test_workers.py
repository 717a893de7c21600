"""Toy workers in one file: one process, no shared memory; `Share` is what they share."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from test_objective import FitLine, Line, line_trainer
from torch import Tensor

from bertsmith.model.trainable import TrainableModel
from bertsmith.training.checkpoint import newest_checkpoint
from bertsmith.training.flat_parameters import GradientCollector, Layout, Storage, use_arrays
from bertsmith.training.optim import buffers_of
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.protocol import BatchSize, Figures, Workers
from bertsmith.training.workers.share import Plan, Share, to_figures


class PlainWorkers:
    def __init__(self, model: TrainableModel, plan: Plan) -> None:
        self.model = model
        self.held_out = plan.objective.evaluation
        self.layout = Layout.of(model.parameter_specs())
        storage = Storage(self.layout.size, 1, torch.float32, buffers_of(plan.optim))
        self.arrays = storage.arrays_in(torch.zeros(storage.num_bytes, dtype=torch.uint8))
        for name, view in self.layout.views(self.arrays.weights).items():
            view.copy_(model.get_parameter(name).detach())
        use_arrays(model, self.layout, self.arrays)
        collector = GradientCollector(model, self.layout)
        self.share = Share(0, plan, model, self.arrays, self.layout, collector)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.share.close()

    def prepare(self, step: int) -> Sequence[BatchSize]:
        return self.share.prepare(step)

    def compute(self, step: int, counts: Mapping[str, int]) -> Sequence[Figures]:
        return to_figures(self.share.compute(step, counts))

    def reduce_gradients(self) -> float:
        return math.sqrt(sum(self.share.sum_gradients().tolist()))

    def update(self, step: int, rate: float, divisor: float) -> None:
        self.share.update(step, rate, divisor)

    def step_timing(self, step_seconds: float) -> Mapping[str, float]:
        return {}

    @contextmanager
    def evaluating(self) -> Iterator[TrainableModel]:
        yield self.model.eval()
        self.model.train()

    def evaluate(self) -> list[Any]:
        with self.evaluating() as model, torch.inference_mode():
            return [self.held_out.evaluate_part(model, 0, 1)]

    def state_dict(self) -> Mapping[str, Tensor]:
        return self.arrays.buffers

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        for name, buffer in self.arrays.buffers.items():
            buffer.copy_(tensors[name])


def test_workers_of_ones_own_reach_the_same_weights(tmp_path: Path) -> None:
    models = Line(), Line()
    plain: Workers = PlainWorkers(models[1], Plan(FitLine(), OptimSettings(), 3, 1))
    for model, workers in zip(models, (None, plain), strict=True):
        trainer = line_trainer(tmp_path, model, workers=workers)
        trainer.begin({})
        trainer.run()
        assert newest_checkpoint(tmp_path / "checkpoints") is not None
    for name, value in models[0].state_dict().items():
        assert torch.equal(models[1].state_dict()[name], value)
