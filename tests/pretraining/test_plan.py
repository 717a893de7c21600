"""Forecasts: their arithmetic by hand, and what their trial does; never how fast the machine is."""

import math
from dataclasses import replace

import pytest
import torch

from bertsmith.data.shards import Corpus
from bertsmith.errors import BertsmithError
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.pretraining import estimate as plan
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.estimate import (
    Accelerator,
    Trial,
    accelerators,
    forecast,
    forecast_to_json,
)
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import longest_share
from bertsmith.training.machine import Machine
from bertsmith.training.settings import TrainingSettings

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
def looked_at(job):
    """Without a trial."""
    return forecast(job, seconds=0)


def with_trial(found, **training):
    """As if a step had taken 2 seconds and an evaluation 3."""
    trial = Trial(1, 5, step_seconds=2.0, evaluation_seconds=3.0, shapes=4, peak_bytes=10**9)
    return replace(found, config=replace(found.config, **training), trial=trial)


def test_a_step_is_that_of_the_objective(job, looked_at):
    machine = Machine(torch.device("cpu"), "fp32", 2)
    config = resolve_pretraining(job, Corpus.open(job.corpus), machine, is_timed=False)
    objective = build_objective(config)
    start, rest = looked_at.phases
    assert (start.first, start.last, rest.first, rest.last) == (1, START_STEPS, 8, None)
    for phase in looked_at.phases:
        steps = range(phase.first, phase.first + plan.SAMPLED_STEPS)
        batches = [batch for step in steps for batch in objective.micro_batches(step)]
        assert phase.real.tokens == sum(b.num_tokens for b in batches) / plan.SAMPLED_STEPS
        assert phase.real.sequences == sum(b.num_sequences for b in batches) / plan.SAMPLED_STEPS
    assert (start.real.sequences, rest.real.sequences, rest.largest.sequences) == (12, 6, 2)
    shares = [longest_share(objective.micro_batches(step), 2) for step in range(8, 12)]
    assert rest.share == sum(shares) / plan.SAMPLED_STEPS
    shapes = {
        (step > START_STEPS, rounded_up(batch.num_tokens))
        for step in range(1, 11)
        for batch in objective.micro_batches(step)[::2]
    }
    machine, phases = looked_at.machine, looked_at.phases
    assert plan.count_shapes(objective, phases, 10, machine) == len(shapes)
    assert plan.count_shapes(objective, phases, 0.5, machine) == 1


def test_a_run_is_the_sum_of_its_steps(looked_at):
    start, rest = looked_at.phases
    others = STEPS - START_STEPS
    assert looked_at.num_steps == STEPS
    wanted = START_STEPS * start.real.tokens + others * rest.real.tokens
    assert looked_at.tokens == pytest.approx(wanted)
    attention = START_STEPS * start.flops["attention"] + others * rest.flops["attention"]
    assert looked_at.flops["attention"] == pytest.approx(attention)
    per_epoch = looked_at.rows_per_epoch
    epochs = START_STEPS * 12 / per_epoch[0] + others * 6 / per_epoch[1]
    assert looked_at.epochs == pytest.approx(epochs)
    short = replace(looked_at, config=replace(looked_at.config, steps=3))
    assert short.tokens == pytest.approx(3 * start.real.tokens)
    assert (looked_at.seconds, looked_at.problem) == (None, "not asked for")


def test_time_is_steps_and_evaluations(looked_at):
    found = with_trial(looked_at)
    share = sum(found.phases[0].flops.values()) / sum(found.phases[1].flops.values())
    assert found.step_seconds == [pytest.approx(2 * share), 2.0]
    assert found.num_evaluations == 1 + 10
    assert found.seconds == pytest.approx(7 * 2 * share + 33 * 2.0 + 11 * 3.0)
    assert with_trial(looked_at, eval_every=15).num_evaluations == 1 + 3


def test_minutes_hold_as_many_steps_as_fit(looked_at):
    found = with_trial(looked_at, steps=None, minutes=10.0)
    first = found.step_seconds[0]
    left = 600 - 11 * 3.0 - 7 * first
    assert found.num_steps == pytest.approx(7 + left / 2)
    assert found.seconds == pytest.approx(600)
    few = with_trial(looked_at, steps=None, minutes=0.6)
    assert few.num_steps == pytest.approx((36 - 33) / first)
    unknown = replace(found, trial=None)
    assert unknown.num_steps is unknown.tokens is forecast_to_json(unknown)["run"]["steps"] is None


def test_other_hardware_by_its_peak(looked_at):
    step, run = looked_at.seconds_on(Accelerator("one", 1e9, 0.5))
    assert step == pytest.approx(sum(looked_at.phases[1].flops.values()) / 5e8)
    assert run == pytest.approx(sum(looked_at.flops.values()) / 5e8)
    names = [each.name for each in accelerators(("H100", "A100"), 1.5e13, 0.4)]
    assert names == ["H100", "A100", "1.5e+13 FLOP/s"]
    for flops in (0.0, math.inf):
        with pytest.raises(BertsmithError, match="--flops"):
            accelerators((), flops, 1.0)


def test_memory_is_that_of_the_trial_or_an_estimate(looked_at):
    needed, found = looked_at.memory, replace(looked_at, shapes=7)
    each = plan.PROCESS_BYTES + 7 * plan.SHAPE_BYTES + 2 * needed.activations
    estimate = needed.shared + plan.CODE_BYTES + 2 * each
    assert found.peak_bytes == pytest.approx(estimate)
    seen = 1e9 + (7 - 4) * plan.SHAPE_BYTES * 2
    assert with_trial(found).peak_bytes == pytest.approx(seen)


def test_a_trial_is_done_by_all_processes_and_sums_gradients_as_the_run_does(job, monkeypatch):
    monkeypatch.setattr(plan, "TRIAL_STEP_SECONDS", 0.0)  # however slow it is: sums take memory
    threads = torch.get_num_threads()
    twelve = replace(job, training=replace(job.training, batch_size=12))
    found = forecast(twelve, seconds=0.01)
    assert torch.get_num_threads() == threads
    trial, objective = found.trial, build_objective(found.config, Corpus.open(job.corpus))
    # Two each are computed at once.
    assert plan._trial_rows(objective, found.machine, found.phases[0]) == 8
    assert trial.step_seconds > 0 and trial.shapes >= 1
    facts = forecast_to_json(found)
    assert facts["processes"] == 2
    assert facts["run"]["seconds"] > 0
    assert facts["memory"]["peak"] > facts["memory"]["weights"] > 0


def test_a_trial_that_does_not_fit_into_memory_is_left_out(job, monkeypatch):
    monkeypatch.setattr(plan, "available_bytes", lambda: 10**6)
    found = forecast(job, seconds=5)
    assert found.trial is None and "GB are free" in found.problem
