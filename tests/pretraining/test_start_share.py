"""Shares of a run: short rows at its beginning, the masking schedule; by steps or minutes."""

import time
from dataclasses import replace

import pytest
import torch
from refusals import refuses
from tiny_runs import KilledError, StopAtStep, small_corpus, small_job
from tiny_tokenizers import tiny_wordpiece
from torch.nn.modules.module import register_module_forward_hook

from bertsmith.comparison.budget import ComparisonBudget, bert_training_length
from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, as_flags
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.config import SourceFacts
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import new_shape, resolve_pretraining, resolve_unmeasured
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.callback import Callback
from bertsmith.training.curves import build_charts
from bertsmith.training.machine import Machine
from bertsmith.training.run_folder import RunFolder

MACHINE = Machine(torch.device("cpu"), "fp32", num_shares=1)


def job_with(corpus_dir, start, **training):
    length = {"start_length": 8} if {"start_share", "start_steps"} & start.keys() else {}
    rows = PretrainingSettings(16, **length, **start)
    return replace(small_job(corpus_dir, **training), pretraining=rows)


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [
        ({"start_share": 0.25}, 40, 10),
        ({"start_share": 0.25}, 1, 0),  # a run has a row of full length
        ({"start_share": 0.99}, 10, 9),
        ({"start_share": 0.25, "start_steps": 3}, 40, 3),
        ({"start_steps": 300}, 40, 300),
        ({}, 40, 0),
    ],
)
def test_a_share_becomes_steps_of_the_run(corpus_dir, start, steps, expected):
    config = resolve_unmeasured(job_with(corpus_dir, start, steps=steps))
    assert config.pretraining.start_steps == expected


def test_a_share_outside_of_the_run_is_refused():
    for share in (-0.1, 1.0, float("nan")):
        with refuses(ConfigError, "--start-share: ", str(share)):
            PretrainingSettings(start_share=share)


@pytest.mark.parametrize(
    ("schedule", "steps", "expected"),
    [
        ({"masking_schedule_share": 0.5}, 40, 20),
        ({"masking_schedule_share": 1.0}, 40, 40),
        ({"masking_schedule_share": 0.5, "masking_schedule_steps": 3}, 40, 3),
    ],
)
def test_a_masking_schedule_is_a_share_of_the_run(corpus_dir, schedule, steps, expected):
    start = {"final_masking_rate": 0.3, "masking_rate": 0.1, **schedule}
    rows = resolve_unmeasured(job_with(corpus_dir, start, steps=steps)).pretraining
    assert rows.masking_schedule_steps == expected
    rates = [rows.masking_rule(step).rate for step in (1, expected + 1, steps + 1)]
    assert rates == pytest.approx([0.1, 0.3, 0.3])


def test_a_masking_schedule_needs_a_share_and_an_end():
    for wrong, *parts in (
        ({"masking_schedule_share": 1.5, "final_masking_rate": 0.3}, "1.5"),
        ({"masking_schedule_share": 0.5}, "0.5", "final_masking_rate"),
        ({"final_masking_rate": 0.3}, "0.0"),
    ):
        with refuses(ConfigError, "masking-schedule-share: ", *parts):
            PretrainingSettings(**wrong)


@pytest.mark.parametrize("eval_rows", [None, 4])
def test_minutes_are_timed_once_and_a_resumed_run_keeps_the_steps(corpus_dir, eval_rows):
    shares = {"start_share": 0.5, "masking_schedule_share": 1.0, "final_masking_rate": 0.3}
    job = job_with(corpus_dir, shares, minutes=0.5, eval_rows=eval_rows)
    corpus = Corpus.open(corpus_dir)
    timed = resolve_pretraining(job, corpus, MACHINE).pretraining
    assert timed.start_steps > 0
    assert timed.masking_schedule_steps == pytest.approx(2 * timed.start_steps, abs=2)
    previous = {
        "evaluations": {"rows": 4, "times": 1, "is_limited": eval_rows is None},
        "pretraining": {"start_steps": 77, "masking_schedule_steps": 99},
    }
    again = resolve_pretraining(job, corpus, MACHINE, previous=previous).pretraining
    assert (again.start_steps, again.masking_schedule_steps) == (77, 99)


def test_minutes_of_a_corpus_without_eval_text_are_timed_by_its_training_text(tmp_path):
    documents = [f"this is document {number}. it has sentences." for number in range(9)]
    corpus_dir = small_corpus(tmp_path / "corpus", tiny_wordpiece(), documents, held_out=0.0)
    job = job_with(corpus_dir, {"start_share": 0.5}, minutes=0.05, eval_rows=None)
    config = resolve_pretraining(job, Corpus.open(corpus_dir), MACHINE)
    # In three seconds no computer makes half of a million steps, of four rows each.
    assert 0 <= config.pretraining.start_steps < 500_000
    assert not any("held-out" in note for note in config.notes)
    steps = resolve_pretraining(
        job_with(corpus_dir, {}, steps=20, eval_rows=None), Corpus.open(corpus_dir), MACHINE
    )
    assert not any("held-out" in note for note in steps.notes)


def test_too_few_steps_are_told_of_new_models_alone(corpus_dir):
    job, corpus = small_job(corpus_dir, steps=20, eval_rows=None), Corpus.open(corpus_dir)
    new = resolve_pretraining(job, corpus, MACHINE)
    few = "20 steps are too few to learn more than token frequencies. Use more --steps."
    assert as_flags(new.notes[-1]) == few
    source = SourceFacts("m", {}, new.model, "masked_lm")
    of_source = replace(job, model=ModelSettings())
    continued = resolve_pretraining(of_source, corpus, MACHINE, source=source)
    assert not any("too few" in note for note in continued.notes)


@pytest.fixture
def clock_of_modules(monkeypatch):
    """Let the clock go on by a millisecond with each call of a module of torch, and then only."""
    calls = []

    def note_call(module, inputs, output):
        calls.append(None)

    handle = register_module_forward_hook(note_call)
    monkeypatch.setattr(time, "perf_counter", lambda: len(calls) / 1000)
    yield
    handle.remove()


@pytest.mark.usefixtures("clock_of_modules")
def test_in_distillation_the_teacher_takes_part_of_the_minutes(corpus_dir):
    job, corpus = job_with(corpus_dir, {"start_share": 0.5}, minutes=9.0), Corpus.open(corpus_dir)
    alone, teacher = new_shape(job.model, "tiny", corpus), new_shape(job.model, "medium", corpus)
    start_steps = [
        resolve_pretraining(job, corpus, MACHINE, teacher=shape).pretraining.start_steps
        for shape in (None, alone, teacher)
    ]
    # A step is three evaluations of its rows by the student, and one by the teacher.
    assert start_steps[1] == pytest.approx(0.75 * start_steps[0], rel=0.02)
    assert start_steps[2] < 0.6 * start_steps[0]


class Changes(Callback):
    """Notes what changes, and at which step."""

    def __init__(self):
        self.noted = []

    def change(self, step, text):
        self.noted.append((step, text))


def test_the_step_is_told_at_which_rows_get_longer(corpus_dir, tmp_path):
    job, changes = job_with(corpus_dir, {"start_share": 0.5}, steps=4), Changes()
    run_pretraining(job, tmp_path / "whole", callbacks=[changes])
    ((step, text),) = changes.noted
    assert step == 3
    assert "rows now have 16 tokens instead of 8" in text
    # Of a run that goes on, it is told once as well, and the weights are the same.
    resumed = Changes()
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "stopped", callbacks=[StopAtStep(3)])
    run_pretraining(job, tmp_path / "stopped", resume=True, callbacks=[resumed])
    assert resumed.noted == changes.noted
    weights = [
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped")
    ]
    assert weights[0] == weights[1]


def test_the_charts_mark_the_step(corpus_dir, tmp_path):
    run_pretraining(job_with(corpus_dir, {"start_share": 0.5}, steps=4), tmp_path / "run")
    entries = [{"step": step, "mlm_loss": 5.0} for step in (1, 2, 3, 4)]
    run = RunFolder(tmp_path / "run").read_run()
    (chart,) = build_charts(entries, run)
    marks = [(series.name, series.points) for series in chart.series if series.style == "mark"]
    assert marks == [("rows of 16 tokens from here", [(2, 0.0)])]
    assert "from here" not in chart.summary
    assert not any(series.style == "mark" for series in build_charts(entries[:2], run)[0].series)


def test_a_budget_in_tokens_counts_the_short_rows_too(corpus_dir):
    job = job_with(corpus_dir, {"start_share": 0.5})
    length = bert_training_length(ComparisonBudget(20_000, "tokens"), job)
    objective = build_objective(resolve_unmeasured(job.with_training(**length)))
    tokens = sum(
        batch.num_tokens
        for step in range(1, length["steps"] + 1)
        for batch in objective.micro_batches(step)
    )
    assert tokens == pytest.approx(20_000, rel=0.03)
