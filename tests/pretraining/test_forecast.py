"""Forecasts and the trials behind them: by hand, and never by how fast the machine is."""

from dataclasses import replace

import pytest
import torch
from refusals import refuses
from small_workers import small_model, small_objective
from torch_threads import threads

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.pretraining import auto_size
from bertsmith.pretraining import forecast as plan
from bertsmith.pretraining.auto_size import choose_preset, speedup, tokens_per_second
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.forecast import Trial, forecast
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import busiest_tokens, timing_steps
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.machine import Machine
from bertsmith.training.settings import TrainingSettings

MACHINE = Machine(torch.device("cpu"), "fp32", num_shares=2)
STEPS = 40
START_STEPS = 7


@pytest.fixture(scope="module")
def job(corpus_dir):
    return PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32),
        PretrainingSettings(max_length=16, start_steps=START_STEPS, start_length=8),
        TrainingSettings(
            steps=STEPS, batch_size=6, micro_batch_size=2, eval_rows=5, threads=2, device="cpu",
            precision="fp32",
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def measured(job):
    threads = torch.get_num_threads()
    found = forecast(job, seconds=0.01)
    assert torch.get_num_threads() == threads
    return found


@pytest.fixture(scope="module")
def timed(measured):
    """As if a step had taken 2 seconds and an evaluation 3."""
    return replace(measured, trial=Trial(5, step_seconds=2.0, evaluation_seconds=3.0, peak_bytes=9))


def with_training(found, **training):
    return replace(found, config=replace(found.config, **training))


def test_a_step_is_that_of_the_objective(job, measured):
    config = resolve_pretraining(job, Corpus.open(job.corpus), MACHINE)
    objective = build_objective(config)
    start, rest = measured.phases
    assert (start.first, start.last, rest.first, rest.last) == (1, START_STEPS, 8, None)
    for phase, num_rows, source in ((start, 12, objective.short_rows), (rest, 6, objective.train)):
        steps = [
            objective.micro_batches(step)
            for step in range(phase.first, phase.first + plan.SAMPLED_STEPS)
        ]
        tokens = sum(batch.num_tokens for batches in steps for batch in batches)
        assert phase.tokens == tokens / plan.SAMPLED_STEPS
        assert phase.epochs == num_rows / source.rows_per_epoch
        shares = [busiest_tokens(batches, num_shares=2, num_processes=2) for batches in steps]
        assert phase.busiest == sum(shares) / plan.SAMPLED_STEPS


def test_a_short_phase_is_measured_by_its_own_steps(job):
    config = resolve_pretraining(job.with_pretraining(start_steps=1), Corpus.open(job.corpus))
    objective = build_objective(config)
    model = objective.new_model(config.model)
    phase = plan._measure_phase(objective, model, MACHINE, 1, 1)
    assert phase.epochs == 12 / objective.short_rows.rows_per_epoch


def test_a_run_is_the_sum_of_its_steps(timed):
    start, rest = timed.phases
    others = STEPS - START_STEPS
    assert timed.num_steps == STEPS
    run = timed.to_json()["run"]
    assert run["tokens"] == pytest.approx(START_STEPS * start.tokens + others * rest.tokens)
    assert run["epochs"] == pytest.approx(START_STEPS * start.epochs + others * rest.epochs)
    assert run["flops"] == pytest.approx(START_STEPS * start.flops + others * rest.flops)
    short = with_training(timed, steps=3).to_json()["run"]
    assert short["tokens"] == pytest.approx(3 * start.tokens)


def test_time_is_steps_and_evaluations(timed):
    share = timed.phases[0].flops / timed.phases[1].flops
    assert timed.step_seconds == [pytest.approx(2 * share), 2.0]
    assert timed.num_evaluations == 1 + 10
    assert timed.seconds == pytest.approx(7 * 2 * share + 33 * 2.0 + 11 * 3.0)
    assert with_training(timed, eval_every=15).num_evaluations == 1 + 3


def test_minutes_hold_as_many_steps_as_fit(timed):
    run = with_training(timed, steps=None, minutes=10.0, evaluations=EvaluationPlan(5, 10))
    first = run.step_seconds[0]
    left = 600 - 11 * 3.0 - 7 * first
    assert run.num_steps == pytest.approx(7 + left / 2)
    assert run.seconds == pytest.approx(600)
    few = with_training(run, minutes=0.6)
    assert few.num_steps == pytest.approx((36 - 33) / first)


@pytest.mark.parametrize("every", [1, 4, 999])
def test_evaluations_at_an_interval_take_their_time_from_the_minutes(timed, every):
    run = with_training(timed, steps=None, minutes=10.0, eval_every=every)
    assert run.seconds == pytest.approx(600, abs=3.0)  # an evaluation, since steps are whole


def test_a_trial_is_done_by_all_processes(measured):
    assert measured.trial.step_seconds > 0 and measured.trial.num_steps >= 3
    facts = measured.to_json()
    assert facts["processes"] == 2
    assert facts["run"]["seconds"] > 0
    # Weights, two moments, and gradients of each process, all in fp32.
    assert facts["memory"]["state"] == pytest.approx(facts["parameters"] * 4 * (1 + 2 + 2), rel=0.1)
    assert facts["memory"]["peak"] > facts["memory"]["state"]


def test_with_exact_sums_a_process_computes_several_shares(job):
    exact = replace(job, training=replace(job.training, exact=True, batch_size=24))
    found = forecast(exact, seconds=0.01)
    assert found.to_json()["processes"] == 2
    # A process has half of the 12 shares, which have gradients of their own.
    [phase] = [phase for phase in found.phases if phase.last is None]
    assert phase.tokens / 2 <= phase.busiest < phase.tokens
    assert found.state_bytes > 12 * 4 * found.parameters


def test_with_exact_sums_steps_are_timed_with_one_thread(corpus_dir):
    task, shape = small_objective(corpus_dir, batch_size=4), small_model()
    for is_exact, num_threads in ((False, 2), (True, 1)):
        with threads(2), timing_steps(task, shape, "fp32", 12, "adamw", 1, is_exact=is_exact):
            assert torch.get_num_threads() == num_threads


def test_what_does_not_fit_into_memory_is_not_tried(job, monkeypatch):
    monkeypatch.setattr(plan, "available_bytes", lambda: 10**8)
    with refuses(ConfigError, "more than 0.4 GB", "0.1 GB are free", "--preset", "--threads"):
        forecast(job, seconds=5)


class Noted(Pretraining):
    """Notes the steps that are computed."""

    def num_micro_batches(self, step):
        self.steps.append(step)
        return super().num_micro_batches(step)


def test_a_size_is_timed_by_steps_of_full_length(job):
    corpora = Corpus.open(job.corpus), Corpus.open(job.corpus, "held_out")
    objective = Noted(*corpora, job.pretraining, batch_size=6)
    objective.steps = []
    shape = BertConfig.from_preset("tiny", 200, max_position_embeddings=32)
    assert tokens_per_second(objective, shape, MACHINE) > 0
    assert min(objective.steps) == START_STEPS + 1


@pytest.mark.parametrize(("num_ranks", "num_micro_batches", "expected"), [
    (1, 11, 2 * 0.9), (3, 11, 6 * 0.9), (3, 5, 5 * 0.9), (1, 1, 1.0),
])  # fmt: skip
def test_processes_and_not_shares_make_a_run_faster(num_ranks, num_micro_batches, expected):
    exact = replace(MACHINE, num_shares=12, num_ranks=num_ranks, num_processes=2)
    assert speedup(exact, num_micro_batches) == pytest.approx(expected)


def test_the_largest_size_that_gets_enough_tokens_is_taken(corpus_dir, monkeypatch):
    objective = small_objective(corpus_dir, max_length=16, batch_size=16, micro_batch_size=None)
    shape = BertConfig.from_preset("tiny", 200, max_position_embeddings=32)
    shapes = dict.fromkeys(auto_size.NEEDED_TOKENS, shape)  # all small, so that none takes long
    choice = choose_preset(objective, shapes, 0.001, MACHINE)
    assert choice.preset == "tiny"
    assert list(choice.tokens) == ["tiny", "mini"]  # too few tokens end the search
    assert "size tiny, the largest that sees enough tokens in 0.001 min " in str(choice)
    monkeypatch.setattr(auto_size, "NEEDED_TOKENS", {"tiny": 0.0, "mini": 1.0, "small": 1e15})
    assert choose_preset(objective, shapes, 10.0, MACHINE).preset == "mini"
    with refuses(ConfigError, "preset: found 'auto'", "--minutes M"):
        choose_preset(objective, shapes, None, MACHINE)
