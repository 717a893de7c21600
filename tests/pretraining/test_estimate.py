"""Forecasts and the trials behind them: by hand, and never by how fast the machine is."""

from dataclasses import replace

import pytest
import torch
from refusals import refuses
from small_workers import small_objective

from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.pretraining import auto_size
from bertsmith.pretraining import estimate as plan
from bertsmith.pretraining.auto_size import choose_preset, tokens_per_second
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.estimate import Trial, forecast, forecast_to_json
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import longest_share
from bertsmith.training.machine import Machine
from bertsmith.training.settings import TrainingSettings

MACHINE = Machine(torch.device("cpu"), "fp32", num_processes=2)
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
    config = resolve_pretraining(job, Corpus.open(job.corpus), MACHINE, is_timed=False)
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


def test_a_run_is_the_sum_of_its_steps(looked_at):
    start, rest = looked_at.phases
    others = STEPS - START_STEPS
    assert looked_at.num_steps == STEPS
    wanted = START_STEPS * start.real.tokens + others * rest.real.tokens
    assert looked_at.tokens == pytest.approx(wanted)
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


def test_a_trial_is_done_by_all_processes(job):
    threads = torch.get_num_threads()
    found = forecast(job, seconds=0.01)
    assert torch.get_num_threads() == threads
    assert found.trial.step_seconds > 0 and found.trial.shapes >= 1
    facts = forecast_to_json(found)
    assert facts["processes"] == 2
    assert facts["run"]["seconds"] > 0
    assert facts["memory"]["peak"] > facts["memory"]["weights"] > 0


def test_a_trial_that_does_not_fit_into_memory_is_left_out(job, monkeypatch):
    monkeypatch.setattr(plan, "available_bytes", lambda: 10**6)
    found = forecast(job, seconds=5)
    assert found.trial is None and "GB are free" in found.problem


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


def test_the_largest_size_that_gets_enough_tokens_is_taken(corpus_dir, monkeypatch):
    objective = small_objective(corpus_dir, max_length=16, batch_size=16, micro_batch_size=None)
    shape = BertConfig.from_preset("tiny", 200, max_position_embeddings=32)
    shapes = dict.fromkeys(auto_size.NEEDED_TOKENS, shape)  # all small, so that none takes long
    choice = choose_preset(objective, shapes, 0.001, MACHINE)
    assert choice.preset == "tiny"
    assert list(choice.tokens) == ["tiny", "mini"]  # too few tokens end the search
    assert "size tiny, the largest that sees enough tokens in 0.001 minutes" in str(choice)
    monkeypatch.setattr(auto_size, "NEEDED_TOKENS", {"tiny": 0.0, "mini": 1.0, "small": 1e15})
    assert choose_preset(objective, shapes, 10.0, MACHINE).preset == "mini"
    with refuses(ConfigError, "preset: found 'auto'", "--minutes M"):
        choose_preset(objective, shapes, None, MACHINE)
