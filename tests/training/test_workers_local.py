"""Several processes: the same weights as one that does all the work, and errors that are told."""

import gc
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import torch
from refusals import refuses
from small_workers import (
    check_same_as_one_process,
    small_model,
    small_objective,
    small_workers,
    train,
)
from torch_threads import threads

from bertsmith.errors import TrainingError
from bertsmith.pretraining.objective import Pretraining
from bertsmith.system.processes import LocalProcesses
from bertsmith.training.layerwise import LayerwiseOptim, freeze
from bertsmith.training.settings import OptimSettings

BF16 = torch.bfloat16


def plain(dropout=0.0):
    return small_model(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)


class EveryOtherStepInPieces(Pretraining):
    """One micro-batch for all rows of a step, then one for each."""

    def _divide(self, step):
        other = self.resized(self.batch_size, self.eval_rows)
        other.micro_batch_size = self.batch_size if step % 2 else 1
        return Pretraining._divide(other, step)


def test_workers_do_what_one_process_would(corpus_dir):
    """Three of them, one for each micro-batch of a step; a part of the model is frozen."""
    optim = LayerwiseOptim(
        learning_rate=3e-3, weight_decay=0.1, num_layers=2, layer_decay=0.8, freeze_layers=1
    )
    task = small_objective(corpus_dir, EveryOtherStepInPieces)
    alone, together = small_model(), small_model()
    before = {name: value.clone() for name, value in together.state_dict().items()}
    for model in (alone, together):
        freeze(model, optim)
    teams = (small_workers(task, 3, BF16, model, optim) for model in (alone, together))
    check_same_as_one_process(*teams)
    for name, value in together.state_dict().items():
        is_frozen = name.startswith(("embeddings.", "layers.0."))
        assert torch.equal(value, before[name]) == is_frozen, name


@pytest.mark.parametrize("dtype", [BF16, torch.float32])
def test_fewer_micro_batches_than_members(corpus_dir, dtype):
    """The idle shares' gradients are zero, also where an earlier step left some."""
    task = small_objective(corpus_dir, micro_batch_size=6)
    whole, parts = (small_workers(task, number, dtype, plain()) for number in (1, 3))
    for gradient in parts.arrays.gradients:
        for view in parts.layout.views(gradient).values():
            view.fill_(7.0)
    assert train(whole, 1, 2)[1] == train(parts, 1, 2)[1]
    assert torch.equal(whole.arrays.gradients_of(1)[0], parts.arrays.gradients_of(1)[0])


@pytest.mark.parametrize("is_up", [True, False])
@pytest.mark.same_on_all_computers
def test_a_killed_worker_is_told_of(corpus_dir, is_up):
    task = small_objective(corpus_dir)
    task.ballast = bytes(0 if is_up else 2**24)  # more than any pipe takes at once
    with small_workers(task, 2) as team:
        if is_up:
            team.wait()
        os.kill(team.processes[0].process.pid, signal.SIGKILL)
        with refuses(TrainingError, "exit code -9", "--resume", "--threads"):
            team.wait()
            train(team, 1, 3)


@pytest.mark.parametrize("num_bytes", [0, 2**24])  # the second is more than any pipe takes at once
@pytest.mark.same_on_all_computers
def test_a_run_that_ends_before_its_workers_are_up_does_not_wait_for_them(corpus_dir, num_bytes):
    task = small_objective(corpus_dir)
    task.ballast = bytes(num_bytes)
    with small_workers(task, 2) as team:
        if num_bytes:  # else they may be up after a step
            train(team, 1, 2)
    assert team.processes[0].process.exitcode == -signal.SIGKILL


class Broken(Pretraining):
    """Refuses the second batch that a worker computes."""

    num_computed = 0

    def losses(self, model, batch):
        if multiprocessing.parent_process() is not None:
            self.num_computed += 1
            if self.num_computed == 2:
                raise TrainingError("this batch is broken")
        return super().losses(model, batch)


class ForeignError(Exception):
    """An error of a user's own loss: it is pickled with one argument, and needs two."""

    def __init__(self, name, value):
        super().__init__(f"{name} is {value}")


class ForeignLoss(Pretraining):
    """Fails in each worker."""

    def losses(self, model, batch):
        if multiprocessing.parent_process() is not None:
            raise ForeignError("margin", -1)
        return super().losses(model, batch)


@pytest.mark.same_on_all_computers
def test_an_error_that_cannot_be_unpickled_is_told_by_its_message(corpus_dir):
    with small_workers(small_objective(corpus_dir, ForeignLoss), 2) as team:
        team.wait()
        with refuses(RuntimeError, "ForeignError: margin is -1", worded=False):
            train(team, 1, 2)


def test_signals_are_for_the_main_process_and_measuring_uses_the_cores_of_all(corpus_dir):
    """As of Ctrl-C in a terminal, or of `timeout`: a worker that ended would lose the step."""
    with threads(2):
        with small_workers(small_objective(corpus_dir, Broken), 2) as team:
            assert torch.get_num_threads() == 1
            for is_up in (False, True):
                for number in (signal.SIGINT, signal.SIGTERM):
                    os.kill(team.processes[0].process.pid, number)
                if not is_up:
                    team.wait()
            train(team, 1, 2)
            with team.evaluating() as model:
                assert torch.get_num_threads() == 2 and not model.training
            assert torch.get_num_threads() == 1 and model.training
            # An error in a worker is raised here.
            with pytest.raises(TrainingError, match="this batch is broken"):
                train(team, 2, 3)
        assert team.processes[0].process.exitcode == 0
        assert torch.get_num_threads() == 2


def test_heads_of_tasks_compute_in_fp32_and_follow_the_updates(corpus_dir):
    model = small_model("regress")
    with torch.no_grad():
        model.heads["regress"].dense.bias.fill_(1997.25)
    team = small_workers(small_objective(corpus_dir), 1, BF16, model, OptimSettings())
    head = team.compute_model.heads["regress"].dense
    assert (head.bias.dtype, head.bias.item()) == (torch.float32, 1997.25)
    assert team.compute_model.layers[0].feed_forward.up.weight.dtype == BF16
    assert head.bias.data_ptr() == model.heads["regress"].dense.bias.data_ptr()


@pytest.mark.same_on_all_computers
def test_in_a_worker_of_a_pool_one_process_does_all(corpus_dir, monkeypatch):
    """A daemon may have no children."""
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with small_workers(small_objective(corpus_dir), 2) as team:
        train(team, 1, 2)
        assert not team.processes
    assert list(LocalProcesses(2).map_in_order(abs, [-1, -2, -3])) == [1, 2, 3]


def test_memory_that_nobody_entered_is_given_back(corpus_dir):
    path = small_workers(small_objective(corpus_dir), 2)._file.path
    gc.collect()
    assert not Path(path).exists()
