"""Toy kind of run in one file: it fits a line, and its result is the loss that is left."""

from functools import partial
from pathlib import Path

import pytest
from run_configs import LoopConfig
from stop_at import StopAt
from test_objective import FitLine, Line, losses

from bertsmith.errors import ConfigError, Interrupted
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.system.compute import Compute
from bertsmith.system.locks import is_held
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.settings import OptimSettings


class LineRun(Run[LoopConfig, float]):
    def __init__(self, out: Path, steps: int, *callbacks: Callback, resume: bool = False) -> None:
        compute = Compute(threads=1, precision="fp32", device="cpu")
        super().__init__(
            out, compute, resume=resume, callbacks=callbacks, resume_command="line --resume"
        )
        self.steps = steps
        self.was_held: list[bool] = []

    def check(self) -> None:
        self.was_held.append(self.folder.path.exists() and is_held(self.folder.path))
        if self.steps > 9:
            raise ConfigError("A line needs at most 9 steps. Give fewer.")

    def resolve(self, machine: Machine) -> LoopConfig:
        self.was_held.append(is_held(self.folder.path))
        optim = OptimSettings(learning_rate=1e-2)
        return LoopConfig(optim, EvaluationPlan(1, 1), self.steps, 3, precision=machine.precision)

    def build(self, resolved: LoopConfig, machine: Machine) -> BuiltRun:
        model, checkpoint = Line().to(machine.device), self.newest_checkpoint()
        if checkpoint is not None:
            model.load_state_dict(read_safetensors(checkpoint.path / "line.safetensors"))
        save = partial(_save, model)
        return BuiltRun(model, FitLine(), resolved, save, {"command": "line"}, checkpoint)

    def write_beside_model(self) -> None:
        self.draw_curves()  # a line has no card

    def state_before_result(self) -> str:
        return "the line is there and nobody looked at it"

    def build_result(self, resolved: LoopConfig, trained: Trained) -> float:
        return float(trained.summary.held_out["held_out_loss"])


class LateLineRun(LineRun):
    is_locked_while_resolved = False

    def resolve(self, machine: Machine) -> LoopConfig:
        assert not self.folder.path.exists()
        self.folder.path.mkdir()
        return super().resolve(machine)


def _save(model: Line, folder: Path) -> None:
    write_safetensors(folder / "line.safetensors", model.state_dict())


def test_a_kind_of_run_of_its_own_is_checked_held_trained_and_has_its_result(
    tmp_path: Path,
) -> None:
    run = LineRun(tmp_path / "out", 6)
    assert run.run() == losses(tmp_path / "out")[-1]
    assert run.was_held == [False, True, True]  # checked, checked again, resolved
    assert not is_held(tmp_path / "out")
    assert (tmp_path / "out" / "curves.svg").exists()
    assert (tmp_path / "out" / "line.safetensors").exists()


def test_a_folder_may_be_held_only_from_when_all_is_resolved(tmp_path: Path) -> None:
    run = LateLineRun(tmp_path / "out", 1)
    run.run()
    assert run.was_held == [False, False, True]  # checked, resolved, checked again


def test_a_refused_run_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        LineRun(tmp_path / "out", 10).run()
    assert not (tmp_path / "out").exists()


def test_it_goes_on_from_its_checkpoint_to_the_same_line(tmp_path: Path) -> None:
    whole = LineRun(tmp_path / "whole", 6).run()
    with pytest.raises(Interrupted):
        LineRun(tmp_path / "stopped", 6, StopAt(3)).run()
    assert LineRun(tmp_path / "stopped", 6, resume=True).run() == whole
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")


def test_a_stop_after_the_last_step_comes_before_the_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted) as told:
        LineRun(out, 6, StopAt(6)).run()
    assert str(out) in str(told.value) and "line --resume" in str(told.value)
    assert (out / "curves.svg").exists()
    before = losses(out)
    assert LineRun(out, 6, resume=True).run() == before[-1]
    assert losses(out) == before  # it was not trained again
