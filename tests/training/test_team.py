"""Several processes: the same weights as one that does all the work, and errors that are told."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bertsmith.data.shards import Corpus
from bertsmith.errors import TrainingError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.albert import AlbertConfig
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.optim import OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.member import Plan
from bertsmith.training.workers.protocol import total_counts

DEADLINE = 300.0
DTYPES = [torch.bfloat16, torch.float32]


def objective(corpus_dir: Path, micro_batch_size: int = 2) -> Pretraining:
    return Pretraining(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=6,
        micro_batch_size=micro_batch_size,
    )


def new_team(
    task: Pretraining, num_members: int, dtype: torch.dtype = torch.float32, dropout: float = 0.1
) -> LocalWorkers:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=150,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))
    settings = OptimSettings(learning_rate=3e-3, weight_decay=0.1)
    return LocalWorkers(model, dtype, Plan(task, settings, seed=3, num_members=num_members))


def team_of_shared_layers(task: Pretraining) -> LocalWorkers:
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=150,
        hidden_size=24,
        embedding_size=11,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=32,
    )
    model = BertModel(config, build_heads(config, ["masked_lm"]))
    plan = Plan(task, OptimSettings(learning_rate=3e-3), seed=3, num_members=2)
    return LocalWorkers(model, torch.bfloat16, plan)


def wait_for_workers(team: LocalWorkers) -> None:
    deadline = time.monotonic() + DEADLINE
    while not team.is_complete and time.monotonic() < deadline:
        team.poll_workers()
        time.sleep(0.05)
    assert team.is_complete


def train(team: LocalWorkers, first: int, end: int) -> list[object]:
    found: list[object] = []
    for step in range(first, end):
        found.append(team.compute(step, total_counts(team.prepare(step))))
        found.append(team.reduce_gradients())
        team.update(step, rate=3e-3, divisor=2.0)
    return found


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in the same order, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_measuring_uses_the_cores_of_the_workers(corpus_dir: Path) -> None:
    torch.set_num_threads(2)
    with new_team(objective(corpus_dir), num_members=2) as team:
        assert torch.get_num_threads() == 1
        with team.evaluating() as model:
            assert torch.get_num_threads() == 2
            assert not model.training
        assert torch.get_num_threads() == 1
        assert model.training
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_members", [2, 3])  # of three micro-batches in a step
def test_workers_do_what_one_process_would(
    corpus_dir: Path, num_members: int, dtype: torch.dtype
) -> None:
    task = objective(corpus_dir)
    alone = new_team(task, num_members, dtype)  # not entered: it has no workers
    expected = train(alone, 1, 6)
    together = new_team(task, num_members, dtype)
    with together:
        found = train(together, 1, 3)  # workers may be up or not
        wait_for_workers(together)
        found += train(together, 3, 6)
    assert found == expected
    for name, array in alone.state_dict().items():
        assert torch.equal(together.state_dict()[name], array), name
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    assert torch.equal(together.arrays.computing, alone.arrays.computing)


def test_layers_that_share_weights_share_them_in_workers_too(corpus_dir: Path) -> None:
    task = Pretraining(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31, pairs="none"),
        batch_size=6,
        micro_batch_size=2,
    )
    alone, together = team_of_shared_layers(task), team_of_shared_layers(task)
    expected = train(alone, 1, 4)
    with together:
        wait_for_workers(together)
        assert train(together, 1, 4) == expected
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    for model in (together.model, together.compute_model):
        assert model.layers[0].attention is model.layers[2].attention


def test_the_number_of_members_changes_rounding_only(corpus_dir: Path) -> None:
    task = objective(corpus_dir)
    teams = [new_team(task, num_members) for num_members in (1, 2, 3)]
    for team in teams:
        train(team, 1, 5)
    for team in teams[1:]:
        torch.testing.assert_close(
            team.arrays.weights, teams[0].arrays.weights, rtol=1e-3, atol=1e-5
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_fewer_micro_batches_than_members(corpus_dir: Path, dtype: torch.dtype) -> None:
    """The idle members' gradients are zero, also where an earlier step left some."""
    whole = new_team(objective(corpus_dir, micro_batch_size=6), 1, dtype, dropout=0.0)
    parts = new_team(objective(corpus_dir, micro_batch_size=6), 3, dtype, dropout=0.0)
    for gradient in parts.arrays.gradients:
        for view in parts.layout.views(gradient).values():
            view.fill_(7.0)
    norms = []
    for team in (whole, parts):
        team.compute(1, total_counts(team.prepare(1)))
        norms.append(team.reduce_gradients())
    assert norms[0] == norms[1]
    assert torch.equal(whole.arrays.gradients_of(1)[0], parts.arrays.gradients_of(1)[0])


class EveryOtherStepInPieces(Pretraining):
    """One micro-batch for all rows of a step, then one for each."""

    def num_micro_batches(self, step: int) -> int:
        self.micro_batch_size = self.batch_size if step % 2 else 1
        return super().num_micro_batches(step)


def test_steps_whose_gradients_are_summed_follow_steps_whose_are_not(corpus_dir: Path) -> None:
    task = EveryOtherStepInPieces(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=2,
    )
    rounded, exact = (new_team(task, 1, dtype, dropout=0.0) for dtype in DTYPES)
    norms = [
        [number for number in train(team, 1, 5) if isinstance(number, float)]
        for team in (rounded, exact)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.03)
    alone = new_team(task, 2, torch.bfloat16)
    expected = train(alone, 1, 5)
    with new_team(task, 2, torch.bfloat16) as together:
        wait_for_workers(together)
        assert train(together, 1, 5) == expected
        assert torch.equal(together.arrays.weights, alone.arrays.weights)


class Broken(Pretraining):
    """Refuses what a worker computes."""

    def losses(self, model, batch):  # type: ignore[no-untyped-def]
        if multiprocessing.parent_process() is not None:
            raise TrainingError("this batch is broken")
        return super().losses(model, batch)


def test_an_error_in_a_worker_is_raised_here(corpus_dir: Path) -> None:
    task = Broken(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=6,
        micro_batch_size=3,
    )
    team = new_team(task, 2)
    with team:
        wait_for_workers(team)
        with pytest.raises(TrainingError, match="this batch is broken"):
            train(team, 1, 2)
    assert all(worker.process.exitcode == 0 for worker in team.workers)


def test_a_killed_worker_is_told_of(corpus_dir: Path) -> None:
    team = new_team(objective(corpus_dir), 2)
    with team:
        wait_for_workers(team)
        os.kill(team.workers[0].process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        with pytest.raises(TrainingError, match=r"worker process ended \(exit code -9\)"):
            train(team, 1, 3)


def test_a_worker_killed_before_it_has_its_job_is_told_of(corpus_dir: Path) -> None:
    task = objective(corpus_dir)
    task.ballast = bytes(2**24)  # type: ignore[attr-defined]  # more than any pipe takes at once
    with new_team(task, 2) as team:
        os.kill(team.workers[0].process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        with pytest.raises(TrainingError, match=r"worker process ended \(exit code -9\)"):
            team.wait()


def test_a_run_that_ends_before_its_workers_are_up_does_not_wait_for_them(corpus_dir: Path) -> None:
    task = objective(corpus_dir)
    task.ballast = bytes(2**24)  # type: ignore[attr-defined]
    with new_team(task, 2) as team:
        train(team, 1, 2)
    assert team.workers[0].process.exitcode == -signal.SIGKILL


def test_workers_end_with_the_team(corpus_dir: Path) -> None:
    threads = torch.get_num_threads()
    team = new_team(objective(corpus_dir), 3)
    with team:
        train(team, 1, 2)
    assert not any(worker.process.is_alive() for worker in team.workers)
    assert torch.get_num_threads() == threads


def test_signals_to_the_whole_group_are_for_the_main_process(corpus_dir: Path) -> None:
    """As of Ctrl-C in a terminal, or of `timeout`: a worker that ended would lose the step."""
    team = new_team(objective(corpus_dir), 2)
    with team:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(team.workers[0].process.pid, number)  # type: ignore[arg-type]
        wait_for_workers(team)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(team.workers[0].process.pid, number)  # type: ignore[arg-type]
        train(team, 1, 3)
    assert team.workers[0].process.exitcode == 0


def test_heads_of_tasks_compute_in_fp32_and_follow_the_updates(corpus_dir: Path) -> None:
    config = BertConfig(
        vocab_size=150, hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=40,
    )  # fmt: skip
    model = BertModel(config, build_heads(config, ["regress"]))
    with torch.no_grad():
        model.heads["regress"].dense.bias.fill_(1997.25)
    plan = Plan(objective(corpus_dir), OptimSettings(learning_rate=1.0), seed=0, num_members=1)
    with LocalWorkers(model, torch.bfloat16, plan) as team:
        head = team.compute_model.heads["regress"].dense
        assert (head.bias.dtype, head.bias.item()) == (torch.float32, 1997.25)
        assert team.compute_model.layers[0].feed_forward.up.weight.dtype == torch.bfloat16
        assert head.bias.data_ptr() == model.heads["regress"].dense.bias.data_ptr()
