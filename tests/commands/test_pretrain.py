"""`bertsmith pretrain` from the command line, as a user meets it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest
import torch
from folders import contents
from refusals import refuses
from tiny_runs import SIZE, KilledError, StopAtStep, small_job
from torch_threads import another_number

from bertsmith.commands.pretrain import describe_run
from bertsmith.commands.settings.pretrain import parse
from bertsmith.data.corpus import Corpus
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.settings import CorpusSettings
from bertsmith.errors import BertsmithWarning, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.reinitialize import sinusoids
from bertsmith.pretraining import micro_batch
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.checkpoint import list_checkpoints
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import Machine
from bertsmith.training.settings import OptimSettings, TrainingSettings


def command(corpus_dir, out, *more):
    return ["pretrain", *SIZE, "--corpus", corpus_dir, "--out", out, *more]


def losses(out):
    names = ("step", "mlm_loss", "nsp_loss", "sop_loss", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [json.dumps([entry.get(name) for name in names]) for entry in entries]


def test_what_is_printed_and_written_and_not_lost(typed, refused, corpus_dir, tmp_path):
    out = tmp_path / "run"
    words = command(corpus_dir, out, "--steps", 2)
    captured = typed(*words, "--json")
    result = json.loads(captured.out)
    assert result["steps"] == 2
    assert result["held_out_unigram_entropy"] == pytest.approx(5.0, abs=0.3)
    assert "eval: masked LM" in captured.err
    written = {path.name for path in out.iterdir()}
    assert written > {
        "curves.svg", "journal.jsonl", "run.json", "config.json", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    }  # fmt: skip
    assert list(out.glob("events.out.tfevents.*"))
    before, weights = losses(out), (out / "model.safetensors").read_bytes()
    (out / "curves.svg").unlink()  # as if it was killed before its curves
    captured = typed(*words, "--resume")
    for part in ("trained    2 steps", "masked LM loss", "token frequency alone",
                 "note       The model is no better"):  # fmt: skip
        assert part in captured.out
    assert "bertsmith fill" not in captured.out  # after two steps it would guess nothing
    assert "bertsmith fill" in describe_run({**result, "held_out_mlm_loss": 0.0})
    assert f"{out}: already trained" in captured.err
    assert (out / "curves.svg").exists()
    assert (out / "model.safetensors").read_bytes() == weights
    assert f"{out}: " in refused(*words, "--resume")
    told = refused(*words)
    assert all(part in told for part in (f"{out}: ", "--resume", "--overwrite", "--out"))
    assert losses(out) == before
    # A tokenizer is not lost to a model.
    tokens = shutil.copytree(corpus_dir / "tokenizer", tmp_path / "tokenizer")
    (tokens / "spiece.model").write_text("of a tokenizer of another kind")
    files = contents(tokens)
    words = command(corpus_dir, tokens, "--steps", 1)
    assert f"{tokens}: " in refused(*words)
    assert files == contents(tokens)
    typed(*words, "--overwrite")
    load_tokenizer(tokens)


def characters(text):
    return list(text)


@pytest.mark.parametrize(("more", "parts"), [
    ("", ["--minutes 15", "--steps 1000"]),
    ("--steps 0", ["--steps: found 0", "1 or more"]),
    ("--minutes 1e-7 --eval-rows None", ["--minutes: found 1e-07", " 4 ", "--batch-size"]),
    ("--steps 2 --max-length 40", ["--max-length: found 40", " 32. ", "embeddings 40"]),
    ("--steps 2 --resume", ["run: ", "--resume"]),
    ("--steps 2 --pairs contrastive --micro-batch-size 2", ["--micro-batch-size: found 2", "4 "]),
    ("--steps 2 --pairs contrastive --batch-size 5", ["--batch-size: found 5", "'contrastive'"]),
    ("--steps 2 --pairs contrastive --batch-size 2", ["found 2", "4 or more as --batch-size"]),
    (f"--steps 2 --masking word --segmenter {__name__}:characters", ["--word-list or --segmenter"]),
    ("--steps 2 --masking word --segmenter os:system", ["--segmenter os:system: ", "jieba:lcut"]),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_code_2(refused, corpus_dir, tmp_path, more, parts):
    words = command(corpus_dir, tmp_path / "run", *more.split())
    error = refused(*words, worded="--minutes" not in words)  # the machine says how long
    assert all(part in error for part in parts) and "begins anew" not in error
    assert not (tmp_path / "run").exists()


def test_flags_come_before_a_recipe_s_settings(tmp_path):
    recipe = tmp_path / "small.toml"
    recipe.write_text(
        'corpus = "corpus"\nout = "out"\n[training]\nsteps = 500\n[pretraining]\npairs = "none"\n'
        "[optim]\nlearning_rate = 1e-4\n"
    )
    words = ["--recipe", str(recipe), "--minutes", "0.005", "--seed", "9"]
    args = parse(words, "bertsmith pretrain")
    assert (args.training.steps, args.training.minutes, args.training.seed) == (None, 0.005, 9)
    assert (args.pretraining.pairs, args.optim.learning_rate) == ("none", 1e-4)


@pytest.mark.parametrize(("preset", "max_length", "precision", "rows"), [
    ("tiny", 128, "bf16", 32), ("tiny", 200, "bf16", 16), ("base", 128, "bf16", 8),
    ("base", 128, "fp32", 4), ("base", 512, "fp32", 1),
])  # fmt: skip
def test_long_rows_and_large_models_are_computed_a_few_at_a_time(
    corpus_dir, preset, max_length, precision, rows
):
    job = PretrainJob(
        corpus_dir, ModelSettings(preset), PretrainingSettings(max_length),
        TrainingSettings(steps=1, batch_size=64, device="cpu"),
    )  # fmt: skip
    machine = Machine(torch.device("cpu"), precision, num_shares=2)
    resolved = resolve_pretraining(job, Corpus.open(corpus_dir), machine)
    assert resolved.micro_batch_size == rows


def test_enough_rows_are_compared_however_many_processes_there_are(corpus_dir):
    job = small_job(corpus_dir, steps=1, batch_size=16).with_pretraining(pairs="contrastive")
    machine = Machine(torch.device("cpu"), "fp32", num_shares=8)
    assert resolve_pretraining(job, Corpus.open(corpus_dir), machine).micro_batch_size == 4


def test_chinese_without_words_is_told(bertsmith, tmp_path):
    texts = ["今天天气很好。我们去公园。" * 3, "他在北京工作。天气很好。" * 3, "今天去。" * 9]
    (tmp_path / "text.txt").write_text("\n\n".join(texts * 4), encoding="utf-8")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*special, *sorted(set("".join(texts)))])
    corpus, words = tmp_path / "corpus", tmp_path / "words.txt"
    build_corpus([tmp_path / "text.txt"], tokenizer, corpus, CorpusSettings(held_out=0.2))
    words.write_text("今天\n天气\n北京\n", encoding="utf-8")
    noted = "of the text are Chinese characters, each of them a word here"
    for name, more in (("alone", ()), ("named", ("--word-list", words))):
        line = command(corpus, tmp_path / name, "--steps", 1, "--masking", "word", *more)
        assert (noted in bertsmith(*line)) == (name == "alone")


def test_another_run_is_not_resumed(corpus_dir, tmp_path):
    job, path = small_job(corpus_dir, steps=2), tmp_path / "run" / "run.json"
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    other = replace(job, training=replace(job.training, seed=9))
    with refuses(ConfigError, "--seed was 0, is now 9"):
        run_pretraining(other, tmp_path / "run", resume=True)
    run = json.loads(path.read_text())
    before = {**run, "config": {**run["config"], "micro_batch_size": 4}}
    path.write_text(json.dumps(before))
    with refuses(ConfigError, "an earlier version", "other masks", "--out"):
        run_pretraining(job, tmp_path / "run", resume=True)
    path.write_text(json.dumps({**json.loads(path.read_text()), "command": None}))
    with refuses(ConfigError, f"{path.parent}: ", "--out"):  # a fine-tuning
        run_pretraining(job, tmp_path / "run", resume=True)


@pytest.mark.parametrize("change", [{"threads": 2}, {"micro_batch_size": 3}], ids=str)
def test_a_run_goes_on_with_another_division_of_its_steps(corpus_dir, tmp_path, change):
    """The weights are those of the undisturbed run but for rounding, and more threads say so."""
    job = small_job(corpus_dir, steps=3, precision="fp32")
    run_pretraining(job, tmp_path / "whole")
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    other = replace(job, training=replace(job.training, **change))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_pretraining(other, tmp_path / "run", resume=True)
    told = [str(each.message) for each in caught if "continues with" in str(each.message)]
    assert len(told) == ("threads" in change)
    whole, resumed = (load_model(tmp_path / name).state_dict() for name in ("whole", "run"))
    torch.testing.assert_close(resumed, whole, rtol=1e-4, atol=1e-5)


def test_rows_that_are_compared_stay_as_many(corpus_dir, tmp_path):
    """Whatever number of threads goes on; another number of rows is another run."""
    job = small_job(corpus_dir, steps=2, batch_size=8)
    job = replace(job, pretraining=replace(job.pretraining, pairs="contrastive"))
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    other = replace(job, training=replace(job.training, micro_batch_size=4))
    with refuses(ConfigError, "were 8, and now are 4", "--micro-batch-size 8"):
        run_pretraining(other, tmp_path / "run", resume=True)
    other = replace(job, training=replace(job.training, threads=2))
    with pytest.warns(BertsmithWarning) as caught:
        run_pretraining(other, tmp_path / "run", resume=True)
    assert "continues with 2" in str(caught[0].message)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["config"]["compared_rows"] == 8


def test_a_resumed_run_has_the_sizes_and_rows_that_it_began_with(corpus_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(micro_batch, "MAX_KEPT_BYTES", 10**6)  # a few rows of tiny
    job = small_job(corpus_dir, minutes=0.02, batch_size=8, eval_rows=None)
    job = replace(job, model=replace(job.model, preset="auto"))
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    path = tmp_path / "run" / "run.json"
    run = json.loads(path.read_text())
    assert run["config"]["preset"] == "tiny"
    run["config"]["evaluations"]["rows"] = 3  # as on a slower machine
    path.write_text(json.dumps(run))
    run_pretraining(job, tmp_path / "run", resume=True)
    config = json.loads(path.read_text())["config"]
    assert config == {**run["config"], "evaluations": config["evaluations"]}
    with refuses(ConfigError, "--eval-rows was 3, is now 4", worded=False):  # and the speed
        (tmp_path / "run" / "curves.svg").unlink()
        other = replace(job, training=replace(job.training, eval_rows=4))
        run_pretraining(other, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("settings", "family"),
    [
        (PretrainingSettings(16, masking="span", pairs="none", rows="across", duplicates=3), None),
        (
            PretrainingSettings(
                16,
                masking="word",
                pairs="sentence_order",
                masking_schedule_steps=3,
                final_masking_rate=0.4,
            ),
            None,
        ),
        (PretrainingSettings(16, pairs="contrastive"), "modernbert"),
    ],
    ids=["span", "sentence order and schedule", "modernbert"],
)
def test_every_kind_resumes_as_if_never_stopped(corpus_dir, tmp_path, settings, family):
    muon = OptimSettings(optimizer="muon")  # elsewhere AdamW resumes
    job = small_job(corpus_dir, steps=4, checkpoint_every=2)
    model = replace(job.model, family=family)
    job = replace(job, pretraining=settings, optim=muon, model=model)
    whole = run_pretraining(job, tmp_path / "whole")
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "stopped", callbacks=[StopAtStep(3)])
    run_pretraining(job, tmp_path / "stopped", resume=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    assert ("held_out_sop_loss" in whole) == (settings.pair_task == "sentence_order")
    assert ("sentence order" in describe_run(whole)) == ("held_out_sop_loss" in whole)
    assert set(load_model(tmp_path / "stopped").heads) == set(settings.heads)


def test_a_run_goes_on_as_it_was_chosen_to_compute(corpus_dir, tmp_path, remember):
    model = ModelSettings("tiny", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    training = TrainingSettings(steps=4, batch_size=4, eval_rows=4, micro_batch_size=2)
    job = PretrainJob(corpus_dir, model, PretrainingSettings(16), training)
    remember("explicit", bf16_gflops=1e9)
    run_pretraining(job, tmp_path / "whole")
    with pytest.raises(KilledError):
        run_pretraining(job, tmp_path / "stopped", callbacks=[StopAtStep(2)])
    remember("fused", bf16_gflops=0.0)
    with another_number():  # so two processes train together
        run_pretraining(job, tmp_path / "stopped", resume=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    run_pretraining(job, tmp_path / "other")
    assert losses(tmp_path / "other") != losses(tmp_path / "whole")


def test_positions_begin_as_was_asked(corpus_dir, tmp_path):
    usual = replace(small_job(corpus_dir, steps=1), optim=OptimSettings(learning_rate=1e-9))
    asked = replace(usual, model=replace(usual.model, position_initializer="sinusoidal"))
    run_pretraining(asked, tmp_path / "run")
    rows = load_model(tmp_path / "run").embeddings.position.weight
    torch.testing.assert_close(rows / rows[0, 1], sinusoids(*rows.shape), atol=1e-4, rtol=0)


def start(words, stderr):
    return subprocess.Popen(
        [sys.executable, "-m", "bertsmith", *map(str, words)],
        stderr=stderr, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def wait_for_checkpoint(process, folder):
    """Wait until a run has saved a checkpoint that was not there."""
    before, deadline = list_checkpoints(folder), time.monotonic() + 300
    while set(list_checkpoints(folder)) <= set(before):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.same_on_all_computers
def test_a_stopped_process_resumes_bit_for_bit(bertsmith, corpus_dir, tmp_path):
    out, length = tmp_path / "stopped", ("--steps", 80, "--checkpoint-every", 4)
    bertsmith(*command(corpus_dir, tmp_path / "whole", *length))
    words = command(corpus_dir, out, *length)
    hang_up = signal.SIGHUP
    if signal.getsignal(hang_up) is signal.SIG_IGN:
        hang_up = signal.SIGINT  # SIGHUP is ignored here, as under nohup, and stays so
    process = start(words, subprocess.PIPE)
    wait_for_checkpoint(process, out / "checkpoints")
    process.send_signal(hang_up)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 128 + hang_up
    assert "bertsmith pretrain --max-length 16" in error
    assert error.rstrip().endswith("--resume")
    # Nobody takes what this process displays, which does not end it.
    reader, writer = os.pipe()
    process = start([*words, "--resume"], writer)
    os.close(writer)
    os.close(reader)
    wait_for_checkpoint(process, out / "checkpoints")
    process.kill()
    assert process.wait(timeout=600) == -signal.SIGKILL
    bertsmith(*words, "--resume")
    assert losses(out) == losses(tmp_path / "whole")
    assert len(losses(out)) > 40
