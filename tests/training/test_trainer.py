"""The loop: resumed is uninterrupted, accumulated is one batch, and it stops when it must."""

import errno
import json
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from refusals import refuses
from run_configs import LoopConfig
from small_workers import small_model, small_objective
from stop_at import StopAt
from tiny_runs import StopAtStep
from torch_threads import threads
from transformers import AutoTokenizer, BertForPreTraining

from bertsmith.errors import (
    BertsmithError,
    BertsmithWarning,
    ConfigError,
    InputError,
    TrainingError,
    issued_warnings,
    option,
)
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.pretraining.objective import Pretraining
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.callback import Callback
from bertsmith.training.checkpoint import list_checkpoints, load_checkpoint
from bertsmith.training.journal import Journal, read_journal
from bertsmith.training.page import RunPage
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import OptimSettings, TrainingSettings
from bertsmith.training.trainer import Trainer
from bertsmith.training.workers.protocol import step_figures, total_counts

SETTINGS = TrainingSettings(
    steps=12, batch_size=6, seed=3, eval_every=5, eval_rows=7, checkpoint_every=4, keep=9
)
TIMES = ("elapsed_seconds", "tokens_per_second")


def objective(corpus_dir, settings=SETTINGS, kind=Pretraining, max_length=31):
    sizes = {"batch_size": settings.batch_size, "micro_batch_size": settings.micro_batch_size,
             "eval_rows": settings.eval_rows, "seed": settings.seed}  # fmt: skip
    return small_objective(corpus_dir, kind, max_length=max_length, **sizes)


def new_model(dropout=0.1):
    return small_model(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)


def trainer(corpus_dir, out, settings=SETTINGS, model=None, task=None, precision="fp32", **options):
    task, model = task or objective(corpus_dir, settings), model or new_model()
    config = LoopConfig(
        OptimSettings(learning_rate=3e-3),
        options.pop("evaluations", EvaluationPlan(5, 10, is_limited=False)),
        settings.steps, settings.seed, settings.minutes, precision,
        eval_every=settings.eval_every, keep=settings.keep,
        checkpoint_every=settings.checkpoint_every, best=options.pop("best", None),
        num_shares=options.pop("num_shares", 1), notes=options.pop("notes", ()),
    )  # fmt: skip
    save = partial(save_model, model, tokenizer=task.train.corpus.tokenizer())
    command = "bertsmith pretrain --resume"
    return Trainer(
        model, task, RunFolder(out), config, save=save, resume_command=command, **options
    )


def trained(corpus_dir, out, *given, **options):
    one = trainer(corpus_dir, out, *given, **options)
    one.begin({"command": "pretrain"})
    return one, one.run()


@pytest.fixture(scope="module")
def whole(corpus_dir, tmp_path_factory):
    """A run in bf16 that was never stopped; commands/test_pretrain.py resumes in fp32."""
    return trained(corpus_dir, tmp_path_factory.mktemp("whole"), precision="bf16")[0]


def journal_without_times(out):
    return [
        json.dumps({name: value for name, value in entry.items() if name not in TIMES})
        for entry in read_journal(out / "journal.jsonl")
    ]


class Watch(Callback):
    """Notes steps and evals, and ends the run at a step or an eval."""

    def __init__(self, last_step=None, last_eval=None):
        self.last_step, self.last_eval, self.steps, self.evals = last_step, last_eval, [], []

    def on_step(self, entry, status):
        self.steps.append(entry["step"])
        return np.equal(entry["step"], self.last_step)  # numpy's True counts too

    def on_eval(self, entry, status):
        assert entry["held_out_mlm_loss"] > 0
        self.evals.append(entry["step"])
        return entry["step"] == self.last_eval


@pytest.mark.parametrize(
    ("watch", "steps", "evals"),
    [(Watch(last_step=7), 7, [0, 5, 7]), (Watch(last_eval=5), 5, [0, 5])],
)
def test_a_callback_sees_steps_and_evals_and_ends_the_run(
    corpus_dir, tmp_path, watch, steps, evals
):
    _, summary = trained(corpus_dir, tmp_path, callbacks=[watch])
    assert (watch.steps, watch.evals) == (list(range(1, steps + 1)), evals)
    assert (summary.steps, summary.held_out["step"]) == (steps, steps)
    load_model(tmp_path)  # refuses a run that has not reached its end
    assert list_checkpoints(tmp_path / "checkpoints")[-1].name == f"step-{steps:08d}"


@pytest.mark.parametrize("is_killed", [False, True])
def test_resumed_is_uninterrupted_bit_for_bit(whole, corpus_dir, tmp_path, is_killed):
    precision = whole.config.precision
    callback = StopAtStep(11) if is_killed else StopAt(7)
    parts = [] if is_killed else ["step 7,", "step-00000007", "pretrain --resume"]
    with refuses(BertsmithError, *parts, worded=not is_killed):
        trained(corpus_dir, tmp_path, precision=precision, callbacks=[callback])
    newest = list_checkpoints(tmp_path / "checkpoints")[-1]
    assert newest.name == f"step-{8 if is_killed else 7:08d}"
    if is_killed:
        with (tmp_path / "journal.jsonl").open("a") as file:
            file.write('{"step": 12, "loss": 3.')
        (tmp_path / "checkpoints" / ".step-00000012.x.tmp").mkdir()
    resumed = trainer(corpus_dir, tmp_path, model=load_model(newest), precision=precision)
    resumed.resume(load_checkpoint(newest))
    resumed.run()
    assert journal_without_times(tmp_path) == journal_without_times(whole.folder.path)
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name


@pytest.mark.parametrize(("content", "chooses"), [(None, False), ("", False), ("", True)])
def test_a_run_resumed_without_its_journal_says_so(corpus_dir, tmp_path, content, chooses):
    best = BestSettings("held_out_mlm_accuracy") if chooses else None
    with refuses(BertsmithError, "step 7,", worded=False):
        trained(corpus_dir, tmp_path, callbacks=[StopAt(7)], best=best)
    newest = list_checkpoints(tmp_path / "checkpoints")[-1]
    journal = tmp_path / "journal.jsonl"
    journal.unlink() if content is None else journal.write_text(content)
    resumed = trainer(corpus_dir, tmp_path, model=load_model(newest), best=best)
    issued_warnings.clear()
    with pytest.warns(BertsmithWarning) as caught:
        resumed.resume(load_checkpoint(newest))
    message = str(caught[0].message)
    assert f"{journal}: " in message and "up to 7 " in message
    assert ("model is not affected" in message) == (not chooses)
    resumed.run()
    if chooses:  # what the message says: the evaluation at step 5 no longer counts
        assert "best weights are now chosen only from evaluations after them" in message
        assert resumed.best.step > 7
    assert min(entry["step"] for entry in read_journal(journal)) > 7


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 3e-2)])
def test_accumulated_is_one_large_batch(corpus_dir, tmp_path, precision, tolerance):
    entries, gradients = [], []
    for size in (None, 4):
        settings = replace(SETTINGS, micro_batch_size=size)
        one = trainer(corpus_dir, tmp_path, settings, new_model(dropout=0.0), precision=precision)
        sizes = one.workers.prepare(1)
        counts = total_counts(sizes)
        entries.append(step_figures(counts, one.workers.compute(1, counts)))
        one.workers.reduce_gradients()
        found = one.workers.arrays.gradients_of(len(sizes))[0].float()
        gradients.append(one.workers.layout.views(found).values())
    assert entries[1] == pytest.approx(entries[0], rel=tolerance)
    for whole, parts in zip(*gradients, strict=True):
        assert (whole - parts).norm() < tolerance * whole.norm().clamp(min=1e-6)


class Broken(Pretraining):
    """Has a number that is none in step 7, or after step 5."""

    place = ""

    def losses(self, model, batch):
        terms = super().losses(model, batch)
        if self.broken.state.step == 6 and self.place == "gradient":
            terms["mlm"].sum.register_hook(lambda gradient: gradient * float("inf"))
        elif self.broken.state.step == 6 and self.place == "loss":
            terms["mlm"].sum = terms["mlm"].sum * float("nan")
        return terms

    def combine(self, results):
        figures = super().combine(results)
        is_broken = self.place == "evaluation" and self.broken.state.step == 5
        return {**figures, "held_out_loss": float("nan")} if is_broken else figures


@pytest.mark.parametrize("place, last, parts", [
    ("loss", 6, ["step 7: loss nan", "built: document ", "--precision fp32"]),
    ("gradient", 6, ["step 7: loss ", "gradient norm nan", "built: document ", "--precision fp32"]),
    ("evaluation", 5, ["step 5: held_out_loss is nan", "--precision fp32"]),
])  # fmt: skip
def test_what_is_no_number_stops_before_the_update(corpus_dir, tmp_path, place, last, parts):
    task = objective(corpus_dir, kind=Broken)
    task.place = place
    task.broken = broken = trainer(corpus_dir, tmp_path, task=task)
    broken.begin({})
    with refuses(TrainingError, *parts, worded=place == "evaluation"):
        broken.run()
    assert max(entry["step"] for entry in read_journal(tmp_path / "journal.jsonl")) == last
    assert "NaN" not in (tmp_path / "journal.jsonl").read_text()
    assert [path.name for path in list_checkpoints(tmp_path / "checkpoints")] == ["step-00000004"]
    assert all(parameter.isfinite().all() for parameter in broken.model.parameters())
    if place != "evaluation":
        failure = json.loads((tmp_path / "failure.json").read_text())
        assert (failure["step"], failure["rows"]) == (7, task.describe(7))


def test_a_run_without_checkpoints_resumes_from_its_beginning(corpus_dir, tmp_path):
    settings = replace(SETTINGS, keep=0, checkpoint_every=None, steps=6)
    trainer(corpus_dir, tmp_path, settings).begin({})
    (tmp_path / "journal.jsonl").write_text('{"step": 0, "held_out_loss": 5.0}\n')
    with refuses(ConfigError, "steps was 6, is now 5", "seed was 3, is now 4"):
        trainer(corpus_dir, tmp_path, replace(settings, steps=5, seed=4)).resume(None)
    again = trainer(corpus_dir, tmp_path, settings)
    again.resume(None)
    again.run()
    steps = [entry["step"] for entry in read_journal(tmp_path / "journal.jsonl")]
    assert steps == [0, 1, 2, 3, 4, 5, 5, 6, 6]
    assert not (tmp_path / "checkpoints").exists()
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(("owner", "name", "step"), [(os, "fsync", 4), (Journal, "write", 0)])
def test_a_full_disk_says_how_to_go_on(corpus_dir, tmp_path, monkeypatch, owner, name, step):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    one = trainer(corpus_dir, tmp_path / "run")
    one.begin({})
    monkeypatch.setattr(owner, name, full)
    with refuses(InputError, f"step {step} ", "No space left", "pretrain --resume"):
        one.run()


@pytest.mark.parametrize("every", [None, 3])
def test_a_run_has_as_many_evaluations_as_are_counted(corpus_dir, tmp_path, every):
    settings = replace(SETTINGS, steps=5, eval_every=every, checkpoint_every=None)
    plan, watch = EvaluationPlan(5, 2), Watch()
    trained(corpus_dir, tmp_path / "run", settings, evaluations=plan, callbacks=[watch])
    assert len(watch.evals) == plan.num_evaluations(5, every)


def test_what_is_said_of_computing_is_what_is_done_and_spelled(corpus_dir, tmp_path):
    note = f"short ({option('eval_rows', 512)} for more)"
    with threads(9):  # there are at most 8 processes
        one = trainer(corpus_dir, tmp_path / "run", is_exact=True, num_shares=12, notes=(note,))
    assert one.workers.num_processes == 8 and "8 processes of 1 thread," in one.computing
    assert one.computing.endswith("\nshort (eval_rows=512 for more)")


def test_a_page_that_cannot_be_written_ends_no_run(corpus_dir, tmp_path):
    place = tmp_path / "page.html"
    place.mkdir()
    with RunPage(place, RunFolder(tmp_path / "run")) as page:
        trained(corpus_dir, tmp_path / "run", replace(SETTINGS, steps=1), callbacks=[page])


def test_a_page_that_cannot_be_written_is_not_tried_at_each_step(whole, tmp_path):
    path = tmp_path / "page.html"
    path.mkdir()
    page = RunPage(path, whole.folder)
    step = next(entry for entry in read_journal(whole.folder.journal_path) if "loss" in entry)
    page.write(step, page.status)
    path.rmdir()
    page.write(step, page.status)
    assert not path.exists()


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_page_hides_no_error_of_a_run_whose_facts_are_lost(tmp_path, text):
    folder = RunFolder(tmp_path)
    if text is not None:
        folder.run_path.write_text(text)
    page = RunPage(tmp_path / "page.html", folder)
    with pytest.raises(TrainingError) as caught, page:
        page.write({"step": 1, "loss": 2.5}, page.status)
        raise TrainingError("the real reason")
    assert "the real reason" in str(caught.value)


def test_a_page_tells_of_short_rows_only_where_there_are_some(corpus_dir, tmp_path):
    path = tmp_path / "page.html"
    with RunPage(path, RunFolder(tmp_path / "run")) as page:
        trained(corpus_dir, tmp_path / "run", replace(SETTINGS, steps=1), callbacks=[page])
    assert "complete" in path.read_text(encoding="utf-8")
    assert "Training begins with short" not in path.read_text(encoding="utf-8")


def test_a_page_spells_options_as_flags(whole, tmp_path):
    path = tmp_path / "page.html"
    with pytest.raises(TrainingError), RunPage(path, whole.folder) as page:
        page.begin(f"on cpu\nshort ({option('eval_rows', 512)} for more)")
        raise TrainingError(f"Try {option('precision', 'fp32')}.")
    text = path.read_text(encoding="utf-8")
    assert "short (--eval-rows 512 for more)" in text
    assert "failed: Try --precision fp32." in text


def test_a_page_shows_the_last_eval_long_after_it(whole, tmp_path):
    path = tmp_path / "page.html"
    steps = [entry for entry in read_journal(whole.folder.journal_path) if "learning_rate" in entry]
    with RunPage(path, whole.folder) as page:
        page.write({"step": 1, "held_out_loss": 4.125, "held_out_mlm_loss": 4.125}, page.status)
        for number in range(2, 300):
            page.write({**steps[-1], "step": number}, page.status)
    text = path.read_text(encoding="utf-8")
    assert "4.125</dd><dd>eval loss" in text and "step 299" in text


def test_a_page_shows_the_speed_of_all_steps(whole, tmp_path):
    path = tmp_path / "page.html"
    steps = [entry for entry in read_journal(whole.folder.journal_path) if "learning_rate" in entry]
    with RunPage(path, whole.folder) as page:
        for number, speed in ((1, 90.0), (2, 45.0)):
            measured = {"step": number, "real_tokens": 90, "tokens_per_second": speed}
            page.write({**steps[-1], **measured}, page.status)
    assert "<dd>60</dd><dd>tokens per second on average" in path.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_transformers_opens_every_checkpoint(whole):
    out = whole.folder.path
    folders = list_checkpoints(out / "checkpoints")
    assert [int(folder.name.removeprefix("step-")) for folder in folders] == [4, 8, 12]
    for folder in (folders[0], out):
        theirs, report = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer("baba ceba")["input_ids"][0] == 2
    word = theirs.bert.embeddings.word_embeddings.weight
    assert word.dtype == torch.float32
    assert torch.equal(word, whole.model.embeddings.word.weight)
    # Masters keep what bf16 would round away.
    assert not torch.equal(word, word.bfloat16().float())


def test_the_journal_has_the_promised_names(whole):
    entries = read_journal(whole.folder.journal_path)
    assert [e["step"] for e in entries if "held_out_loss" in e] == [0, 5, 10, 12]
    step = next(entry for entry in entries if entry["step"] == 1)
    assert set(step) == {
        "step", "loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "gradient_norm",
        "learning_rate", "real_tokens", "tokens_per_second", "elapsed_seconds",
    }  # fmt: skip
    assert step["loss"] == step["mlm_loss"] + step["nsp_loss"]
    assert set(entries[0]) == {
        "step", "elapsed_seconds", "held_out_loss", "held_out_mlm_loss", "held_out_mlm_accuracy",
        "held_out_nsp_loss", "held_out_nsp_accuracy",
    }  # fmt: skip
    run = json.loads(whole.folder.run_path.read_text())
    assert (run["command"], run["summary"]["steps"]) == ("pretrain", 12)
    total = sum(entry["real_tokens"] for entry in entries if "real_tokens" in entry)
    assert run["summary"]["real_tokens"] == total


class Clock:
    """Time that passes only when somebody looks: a run by it is the same on every machine."""

    def __init__(self, tick):
        self.now = 100.0
        self.tick = tick

    def __call__(self):
        self.now += self.tick
        return self.now


def test_minutes_end_on_time_with_the_rate_near_zero(corpus_dir, tmp_path):
    clock = Clock(tick=0.1)
    settings = replace(SETTINGS, steps=None, minutes=1.0, eval_every=None, checkpoint_every=None)

    def measured():
        entries = read_journal(tmp_path / "journal.jsonl")
        return [entry["step"] for entry in entries if "held_out_loss" in entry]

    _, summary = trained(corpus_dir, tmp_path, replace(settings, minutes=0.5), clock=clock)
    assert clock.now - 100.0 == pytest.approx(30.0, abs=2.0)
    assert summary.elapsed_seconds == pytest.approx(30.0, abs=2.0)
    rates = [entry.get("learning_rate", 0) for entry in read_journal(tmp_path / "journal.jsonl")]
    assert max(rates) > 2.9e-3
    assert summary.last_step["learning_rate"] < 0.1e-3
    assert len(measured()) == 11  # before the first step, and at every tenth of the time
    assert measured()[-1] == summary.steps
    # Evaluations for which the time is spent are left out: 0.5 seconds each, and 3 are a twentieth.
    plan = EvaluationPlan(7, 10)
    _, summary = trained(corpus_dir, tmp_path, settings, clock=Clock(0.5), evaluations=plan)
    assert (measured()[0], measured()[-1]) == (0, summary.steps)
    assert 2 < len(measured()) <= 6
    # A run that is over before its first step learns too.
    settings = replace(settings, minutes=0.001)
    _, summary = trained(corpus_dir, tmp_path, settings, clock=Clock(1.0))
    assert summary.steps == 1
    assert summary.last_step["learning_rate"] > 1e-3
