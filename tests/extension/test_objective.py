"""A toy model and objective with batches of their own, in one file: a line through points."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from refusals import refuses
from run_configs import LoopConfig
from stop_at import StopAt
from torch import Tensor, nn

from bertsmith.errors import Interrupted
from bertsmith.model.trainable import TrainableModel
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.checkpoint import newest_checkpoint
from bertsmith.training.journal import read_journal
from bertsmith.training.objective import HeldOutData, LossTerm, Objective
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import OptimSettings
from bertsmith.training.trainer import Trainer
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import Workers, total_counts
from bertsmith.training.workers.share import Plan

WIDTH = 5


class Line(TrainableModel):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(WIDTH, 70)
        self.outer = nn.Linear(70, 1)

    def forward(self, points: Tensor) -> Tensor:
        return self.outer(torch.tanh(self.inner(points)))[:, 0]


@dataclass(frozen=True)
class Points:
    values: Tensor

    @property
    def num_tokens(self) -> int:
        return len(self.values)

    def to(self, device: torch.device) -> Self:
        return type(self)(self.values.to(device))


class FitLine(Objective[Line, Points]):
    """Learns the sum of a point's coordinates; micro-batches grow by one point."""

    def num_micro_batches(self, step: int) -> int:
        return 3

    def micro_batch(self, step: int, index: int) -> Points:
        generator = torch.Generator().manual_seed(10 * step + index)
        return Points(torch.randn(4 + index, WIDTH, generator=generator))

    def counts(self, batch: Points) -> dict[str, int]:
        return {"line": len(batch.values)}

    def losses(self, model: Line, batch: Points) -> dict[str, LossTerm]:
        errors = model(batch.values) - batch.values.sum(1)
        return {"line": LossTerm(errors.square().sum(), (errors.abs() < 0.5).sum(), len(errors))}

    @property
    def evaluation(self) -> "HeldOutPoints":
        return HeldOutPoints()

    def describe(self, step: int) -> str:
        return f"points of step {step}"

    def identity(self) -> dict[str, Any]:
        return {"task": "line"}


class HeldOutPoints(HeldOutData[Line]):
    def evaluate_part(self, model: Line, part: int, num_parts: int) -> tuple[float, int]:
        points = FitLine().micro_batch(0, 99).values[part::num_parts]
        term = FitLine().losses(model, Points(points))["line"]
        return term.sum.item(), term.count

    def combine(self, results: Sequence[tuple[float, int]]) -> dict[str, float]:
        sums, counts = zip(*results, strict=True)
        return {"held_out_loss": sum(sums) / sum(counts)}


def line_workers(num_shares: int, optim: OptimSettings | None = None) -> LocalWorkers:
    plan = Plan(FitLine(), optim or OptimSettings(learning_rate=1e-2), 3, num_shares)
    return LocalWorkers(Line(), torch.float32, plan)


def train(workers: Workers, first: int, end: int) -> list[float]:
    """Train steps from `first` to before `end`; return the loss and gradient norm of each."""
    numbers = []
    for step in range(first, end):
        counts = total_counts(workers.prepare(step))
        found = workers.compute(step, counts)
        numbers.append(sum(each["line"][0] for each in found) / counts["line"])
        numbers.append(workers.reduce_gradients())
        workers.update(step, 1e-2, 1.0)
    return numbers


def line_trainer(
    out: Path, model: Line, optim: OptimSettings | None = None, **options: Any
) -> Trainer:
    objective = FitLine()
    config = LoopConfig(
        optim or OptimSettings(learning_rate=1e-2),
        EvaluationPlan(1, 4),
        seed=3,
        steps=60,
        checkpoint_every=20,
    )

    def save(folder: Path) -> None:
        write_safetensors(folder / "line.safetensors", model.state_dict())

    return Trainer(model, objective, RunFolder(out), config, save=save, **options)


def losses(out: Path) -> list[float]:
    """Read losses and norms, of steps and of evaluations."""
    entries = read_journal(out / "journal.jsonl")
    names = "loss", "gradient_norm", "held_out_loss"
    return [entry[name] for entry in entries for name in names if name in entry]


def test_an_objective_of_its_own_learns_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = line_trainer(tmp_path / "whole", Line())
    whole.begin({})
    summary = whole.run()
    found = losses(tmp_path / "whole")
    assert summary.held_out["held_out_loss"] < found[0] / 4

    out = tmp_path / "stopped"
    stopped = line_trainer(out, Line(), callbacks=[StopAt(33)])
    stopped.begin({})
    with refuses(Interrupted, f"{out}: ", "step 33,", "--resume"):
        stopped.run()
    checkpoint = newest_checkpoint(out / "checkpoints")
    assert checkpoint is not None and checkpoint.state.step == 33
    model = Line()
    model.load_state_dict(read_safetensors(checkpoint.path / "line.safetensors"))
    resumed = line_trainer(out, model)
    resumed.resume(checkpoint)
    resumed.run()
    assert losses(out) == found
    weights = [read_safetensors(path / "line.safetensors") for path in (out, tmp_path / "whole")]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
