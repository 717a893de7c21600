"""`bertsmith pretrain` from the command line, as a user meets it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertsmith import cli
from bertsmith.commands.pretrain import describe
from bertsmith.data.corpus import CorpusSettings, build_corpus
from bertsmith.data.shards import Corpus
from bertsmith.errors import BertsmithError, ConfigError, Interrupted
from bertsmith.model.loading import load_model
from bertsmith.model.sinusoidal_positions import waves
from bertsmith.pretraining import micro_batch
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve
from bertsmith.pretraining.run import pretrain
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.matrix_products import Precision
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.checkpoint import list_checkpoints
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import Machine
from bertsmith.training.optim import OptimSettings
from bertsmith.training.recorder import Status
from bertsmith.training.trainer import TrainingSettings

SIZE = [
    "--preset", "tiny", "--max-length", "16", "--batch-size", "4", "--eval-rows", "4",
    "--max-position-embeddings", "32", "--precision", "fp32", "--threads", "1",
]  # fmt: skip


def command(corpus_dir: Path, out: Path, *more: str) -> list[str]:
    return ["pretrain", *SIZE, "--corpus", str(corpus_dir), "--out", str(out), *more]


def losses(out: Path) -> list[str]:
    names = ("step", "mlm_loss", "nsp_loss", "sop_loss", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [json.dumps([entry.get(name) for name in names]) for entry in entries]


def test_json_is_one_object_and_the_rest_goes_to_stderr(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(corpus_dir, tmp_path / "run", "--steps", "3", "--json"))
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["steps"] == 3
    assert result["held_out_unigram_entropy"] == pytest.approx(5.0, abs=0.3)
    assert result["single_sentence_share"] < 0.2
    assert "eval: masked LM loss" in captured.err
    for name in ("curves.png", "journal.jsonl", "run.json", "config.json", "model.safetensors",
                 "tokenizer.json", "tokenizer_config.json", "vocab.txt"):  # fmt: skip
        assert (tmp_path / "run" / name).is_file()
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


def test_text_says_what_it_came_to(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(corpus_dir, tmp_path / "run", "--steps", "2"))
    out = capsys.readouterr().out
    for part in (
        "trained    2 steps",
        "masked LM loss",
        "token frequency alone",
        "next       more steps",
    ):
        assert part in out
    assert "bertsmith fill" not in out  # after two steps it would guess nothing
    learnt = {**RESULT, "held_out_mlm_loss": 5.0}
    assert 'try        bertsmith fill runs/it "… [MASK] …"' in describe(learnt)
    assert "bertsmith fill" in describe({**UNMEASURED, "steps": 100})
    assert "bertsmith fill" not in describe({**UNMEASURED, "steps": 99})


UNMEASURED: dict[str, Any] = {
    "out": "runs/it", "steps": 9, "real_tokens": 9, "elapsed_seconds": 9.0,
    "data_wait_fraction": 0.0, "tokens_per_second": 9.0,
}  # fmt: skip
RESULT = {**UNMEASURED, "held_out_mlm_accuracy": 0.1, "held_out_unigram_entropy": 6.0}


def test_a_short_run_measures_little_and_says_so(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = SIZE.index("--eval-rows")
    size = [*SIZE[:rows], *SIZE[rows + 2 :]]
    out = tmp_path / "run"
    for length in (["--steps", "20"], ["--minutes", "0.02"]):
        words = ["pretrain", *size, "--corpus", str(corpus_dir), "--out", str(out), "--overwrite"]
        cli.main([*words, *length])
        assert "held-out rows are measured" in capsys.readouterr().err
        run = json.loads((out / "run.json").read_text())
        assert run["config"]["evaluations"]["rows"] < 512
        entries = read_journal(out / "journal.jsonl")
        measured = [entry["step"] for entry in entries if "held_out_loss" in entry]
        assert (measured[0], measured[-1]) == (0, entries[-1]["step"])
        assert len(measured) <= 1 + run["config"]["evaluations"]["times"]


def test_a_resumed_run_measures_the_rows_that_it_began_with(
    corpus_dir: Path, tmp_path: Path
) -> None:
    job = PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32),
        PretrainingSettings(16),
        TrainingSettings(minutes=0.02, batch_size=4, threads=1, precision="fp32"),
    )
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    path = tmp_path / "run" / "run.json"
    run = json.loads(path.read_text())
    run["config"]["evaluations"]["rows"] = 3  # as on a slower machine
    path.write_text(json.dumps(run))
    pretrain(job, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match=r"evaluations\.rows was 3, is now 4"):
        (tmp_path / "run" / "curves.png").unlink()
        other = replace(job, training=replace(job.training, eval_rows=4))
        pretrain(other, tmp_path / "run", resume=True)


def test_minutes_without_a_step_are_refused(corpus_dir: Path, tmp_path: Path) -> None:
    training = TrainingSettings(minutes=1e-7, batch_size=64, threads=1)
    job = PretrainJob(corpus_dir, ModelSettings("tiny"), PretrainingSettings(16), training)
    with pytest.raises(ConfigError, match=r"minutes: found 1e-07; one step of 64 rows takes about"):
        pretrain(job, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_chinese_without_words_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [
        "今天天气很好。我们去公园。" * 3,
        "他在北京工作。天气很好。" * 3,
        "我们在北京。今天去。" * 3,
    ]
    (tmp_path / "text.txt").write_text("\n\n".join(documents * 4), encoding="utf-8")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*special, *sorted(set("".join(documents)))])
    corpus = tmp_path / "corpus"
    build_corpus([tmp_path / "text.txt"], tokenizer, corpus, CorpusSettings(held_out=0.2))
    (tmp_path / "words.txt").write_text("今天\n天气\n北京\n", encoding="utf-8")
    by_word = ("--steps", "1", "--masking", "word")
    cli.main(command(corpus, tmp_path / "alone", *by_word))
    noted = "of the text are Chinese characters, each of them a word here"
    assert noted in capsys.readouterr().out
    cli.main(
        command(corpus, tmp_path / "named", *by_word, "--word-list", str(tmp_path / "words.txt"))
    )
    assert noted not in capsys.readouterr().out


def characters(text: str) -> list[str]:
    return list(text)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "Give --steps N or --minutes M"),
        (("--steps", "0"), "training.steps: found 0"),
        (("--steps", "2", "--max-length", "40"), "pretraining.max_length: found 40"),
        (("--steps", "2", "--resume"), "no run to resume"),
        (
            ("--steps", "2", "--masking", "word", "--segmenter", "jiba:lcut"),
            "No module named 'jiba'",
        ),
        (("--steps", "2", "--masking", "word", "--word-list", "absent.txt"), "No such file"),
        (
            ("--steps", "2", "--masking", "word", "--segmenter", f"{__name__}:characters"),
            "no piece that is",
        ),
        (
            ("--steps", "2", "--masking", "word", "--segmenter", "os:system"),
            "os is a module of Python itself",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_code_2(
    corpus_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(command(corpus_dir, tmp_path / "run", *more))
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "begins anew" not in error
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_is_not_lost_to_a_model(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tokenizer"
    shutil.copytree(corpus_dir / "tokenizer", out)
    (out / "spiece.model").write_text("of a tokenizer of another kind")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(SystemExit):
        cli.main(command(corpus_dir, out, "--steps", "1"))
    assert "the folder is not empty" in capsys.readouterr().err
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}
    cli.main(command(corpus_dir, out, "--steps", "1", "--overwrite"))
    load_tokenizer(out)


def test_a_finished_run_is_neither_resumed_nor_lost(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command(corpus_dir, tmp_path / "run", "--steps", "2"))
    before = losses(tmp_path / "run")
    for more, message in (("--resume", "complete"), ("--json", "holds an earlier run")):
        with pytest.raises(SystemExit):
            cli.main(command(corpus_dir, tmp_path / "run", "--steps", "2", more))
        error = capsys.readouterr().err
        assert message in error
        assert "is trained already" not in error
    assert losses(tmp_path / "run") == before
    cli.main(command(corpus_dir, tmp_path / "run", "--steps", "1", "--overwrite"))
    assert read_journal(tmp_path / "run" / "journal.jsonl")[-1]["step"] == 1


def test_a_run_killed_before_its_curves_gets_them(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    cli.main(command(corpus_dir, out, "--steps", "2"))
    before, told = losses(out), capsys.readouterr().out
    weights = (out / "model.safetensors").read_bytes()
    (out / "curves.png").unlink()
    cli.main(command(corpus_dir, out, "--steps", "2", "--resume"))
    captured = capsys.readouterr()
    assert (captured.out, losses(out)) == (told, before)
    assert "is trained already" in captured.err
    assert (out / "curves.png").exists()
    assert (out / "model.safetensors").read_bytes() == weights
    with pytest.raises(SystemExit):
        cli.main(command(corpus_dir, out, "--steps", "2", "--resume"))
    assert "complete" in capsys.readouterr().err


def test_a_recipe_is_replaced_by_the_line(
    corpus_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(
        f'corpus = "{corpus_dir}"\nout = "{tmp_path / "run"}"\n'
        "[training]\nsteps = 500\nbatch_size = 4\neval_rows = 4\nthreads = 1\n"
        '[model]\npreset = "tiny"\nmax_position_embeddings = 32\n'
        '[pretraining]\nmax_length = 16\npairs = "none"\n'
        "[optim]\nlearning_rate = 1e-4\n"
    )
    cli.main(["pretrain", str(recipe), "--minutes", "0.005", "--seed", "9", "--json"])
    capsys.readouterr()
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["training"]["steps"] is None
    assert settings["training"]["minutes"] == 0.005
    assert settings["training"]["seed"] == 9
    assert settings["pretraining"]["pairs"] == "none"
    assert settings["optim"]["learning_rate"] == 1e-4


class StopAtStep:
    """A callback that ends a run in the middle of its steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def begin(self, computing: str) -> None:
        pass

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        if entry["step"] == self.step:
            raise BertsmithError("stopped")


@pytest.mark.parametrize(
    "settings",
    [
        PretrainingSettings(16, masking="span", pairs="none", rows="across", duplicates=3),
        PretrainingSettings(16, masking="word", pairs="sentence_order"),
        PretrainingSettings(16, masking_schedule_steps=5, final_masking_rate=0.4),
    ],
    ids=["span", "sentence order", "schedule"],
)
def test_every_kind_resumes_as_if_never_stopped(
    corpus_dir: Path, tmp_path: Path, settings: PretrainingSettings
) -> None:
    job = PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32),
        settings,
        TrainingSettings(
            steps=8, batch_size=4, eval_rows=4, threads=1, precision="fp32", checkpoint_every=3
        ),
    )
    whole = pretrain(job, tmp_path / "whole")
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(job, tmp_path / "stopped", callbacks=[StopAtStep(5)])
    pretrain(job, tmp_path / "stopped", resume=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    assert ("held_out_sop_loss" in whole) == (settings.pair_task == "sentence_order")
    assert ("sentence order: loss" in describe(whole)) == ("held_out_sop_loss" in whole)
    assert set(load_model(tmp_path / "stopped").heads) == set(settings.heads)


def test_a_run_goes_on_as_it_was_chosen_to_compute(
    corpus_dir: Path, tmp_path: Path, remember: Callable[..., None]
) -> None:
    model = ModelSettings("tiny", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    training = TrainingSettings(steps=4, batch_size=4, eval_rows=4, micro_batch_size=2)
    job = PretrainJob(corpus_dir, model, PretrainingSettings(16), training)
    remember("explicit", bf16_gflops=1e9)
    pretrain(job, tmp_path / "whole")
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(job, tmp_path / "stopped", callbacks=[StopAtStep(2)])
    remember("fused", bf16_gflops=0.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)  # as on another machine
    try:
        pretrain(job, tmp_path / "stopped", resume=True)
    finally:
        torch.set_num_threads(threads)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    pretrain(job, tmp_path / "other")
    assert losses(tmp_path / "other") != losses(tmp_path / "whole")


def test_positions_begin_as_was_asked(corpus_dir: Path, tmp_path: Path) -> None:
    training = TrainingSettings(steps=2, batch_size=4, eval_rows=4, threads=1, precision="fp32")
    usual = PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32),
        PretrainingSettings(16),
        training,
        OptimSettings(learning_rate=1e-9),
    )
    asked = replace(usual, model=replace(usual.model, position_initializer="sinusoidal"))
    found = {}
    for name, job in (("usual", usual), ("waves", asked)):
        pretrain(job, tmp_path / name)
        found[name] = load_model(tmp_path / name).embeddings.position.weight
        config = json.loads((tmp_path / name / "run.json").read_text())["config"]
        assert config["position_initializer"] == (job.model.position_initializer or "normal")
    rows = found["waves"]
    torch.testing.assert_close(rows / rows[0, 1], waves(*rows.shape), atol=1e-4, rtol=0)
    assert not torch.allclose(found["usual"], rows, atol=0.01)
    alone = ModelSettings(position_initializer="sinusoidal")
    with pytest.raises(ConfigError, match=r"position_initializer: found 'sinusoidal' beside"):
        pretrain(replace(asked, model=alone, from_=tmp_path / "usual"), tmp_path / "more")
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(asked, tmp_path / "stopped", callbacks=[StopAtStep(1)])
    with pytest.raises(ConfigError, match="was 'sinusoidal', is now 'normal'"):
        pretrain(usual, tmp_path / "stopped", resume=True)
    pretrain(asked, tmp_path / "stopped", resume=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "waves")


class InterruptAtStep(StopAtStep):
    """Asks to stop, as Ctrl-C does."""

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        if entry["step"] == self.step and "learning_rate" in entry:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_wish_to_stop_at_the_last_step_ends_a_series(corpus_dir: Path, tmp_path: Path) -> None:
    training = TrainingSettings(steps=2, batch_size=4, eval_rows=4, threads=1, precision="fp32")
    job = PretrainJob(corpus_dir, ModelSettings("tiny"), PretrainingSettings(16), training)
    alone = pretrain(job, tmp_path / "alone", callbacks=[InterruptAtStep(2)])
    assert alone["steps"] == 2
    with pytest.raises(Interrupted, match="trained, then stopped"):
        pretrain(job, tmp_path / "one", callbacks=[InterruptAtStep(2)], measure=lambda model: {})
    assert "summary" in json.loads((tmp_path / "one" / "run.json").read_text())


def stopped_job(corpus_dir: Path, out: Path) -> PretrainJob:
    """A job of two steps that was stopped after the first."""
    job = PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32),
        PretrainingSettings(16),
        TrainingSettings(steps=2, batch_size=4, eval_rows=4, threads=1, precision="fp32"),
    )
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(job, out, callbacks=[StopAtStep(1)])
    return job


def test_a_run_of_another_command_is_not_resumed(corpus_dir: Path, tmp_path: Path) -> None:
    job = stopped_job(corpus_dir, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    run = json.loads(path.read_text())
    for model in ("a-folder", None):  # as `finetune` and `distill` have it
        path.write_text(json.dumps({**run, "settings": {"model": model}, "config": {"task": "x"}}))
        with pytest.raises(ConfigError, match="cannot be resumed with other settings"):
            pretrain(job, tmp_path / "run", resume=True)


def test_steps_that_are_divided_otherwise_are_another_run(corpus_dir: Path, tmp_path: Path) -> None:
    job = stopped_job(corpus_dir, tmp_path / "run")
    for training in (replace(job.training, micro_batch_size=2), replace(job.training, threads=2)):
        with pytest.raises(
            ConfigError, match=r"micro_batch_size was 4, is now 2.* as many --threads"
        ):
            pretrain(replace(job, training=training), tmp_path / "run", resume=True)
    pretrain(job, tmp_path / "run", resume=True)


def test_a_run_of_a_chosen_size_is_resumed_with_as_many_rows_at_once(
    corpus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batch, "MAX_KEPT", 10**6)  # a few rows of tiny
    job = PretrainJob(
        corpus_dir,
        ModelSettings("auto", max_position_embeddings=32),
        PretrainingSettings(16),
        TrainingSettings(minutes=0.02, batch_size=8, eval_rows=4, threads=1, precision="fp32"),
    )
    with pytest.raises(BertsmithError, match="stopped"):
        pretrain(job, tmp_path / "run", callbacks=[StopAtStep(1)])
    pretrain(job, tmp_path / "run", resume=True)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["config"]["preset"] == "tiny"
    assert run["config"]["micro_batch_size"] < 8


def start(arguments: list[str], stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bertsmith", *arguments],
        stderr=stderr,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not list_checkpoints(out / "checkpoints"):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


LENGTH = ["--steps", "400", "--checkpoint-every", "20"]


@pytest.fixture(scope="module")
def whole_run(corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    cli.main(command(corpus_dir, out, *LENGTH))
    return out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_process_resumes_bit_for_bit(
    corpus_dir: Path, whole_run: Path, tmp_path: Path, number: signal.Signals
) -> None:
    if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("SIGHUP is ignored here, as under nohup, and stays so")
    process = start(command(corpus_dir, tmp_path / "stopped", *LENGTH))
    wait_for_checkpoint(tmp_path / "stopped", process)
    process.send_signal(number)
    _, error = process.communicate(timeout=300)
    if number != signal.SIGKILL:
        assert process.returncode == 2
        assert "Continue with: bertsmith pretrain --preset tiny" in error
        assert error.rstrip().endswith("--resume")
    cli.main(command(corpus_dir, tmp_path / "stopped", *LENGTH, "--resume"))
    assert losses(tmp_path / "stopped") == losses(whole_run)
    assert len(losses(whole_run)) == 411


@pytest.mark.parametrize("kind", ["left", "full", "closed"])
def test_a_display_that_nobody_takes_does_not_end_a_run(
    corpus_dir: Path, tmp_path: Path, kind: str
) -> None:
    arguments = command(corpus_dir, tmp_path / "run", "--steps", "3")
    if kind == "closed":
        shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "bertsmith"]
        code = subprocess.run([*shell, *arguments], stdout=subprocess.DEVNULL).returncode
    elif kind == "full":
        with Path("/dev/full").open("w") as full:
            code = start(arguments, full.fileno()).wait(timeout=300)
    else:
        reader, writer = os.pipe()
        process = start(arguments, writer)
        os.close(writer)
        os.close(reader)
        code = process.wait(timeout=300)
    assert code == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["summary"]["steps"] == 3
    # Nothing that was meant for the display went into a file that was opened in its place.
    assert len(read_journal(tmp_path / "run" / "journal.jsonl")) == 7


def test_long_rows_and_large_models_are_computed_a_few_at_a_time(corpus_dir: Path) -> None:
    def rows_at_once(preset: str, max_length: int, precision: Precision, **training: int) -> int:
        job = PretrainJob(
            corpus_dir,
            model=ModelSettings(preset=preset),  # type: ignore[arg-type]
            pretraining=PretrainingSettings(max_length=max_length),
            training=TrainingSettings(steps=1, batch_size=64, device="cpu", **training),
        )
        machine = Machine(torch.device("cpu"), precision, num_processes=2)
        return resolve(job, Corpus.open(job.corpus), machine, is_timed=False).micro_batch_size

    assert rows_at_once("tiny", 128, "bf16") == 32
    assert rows_at_once("tiny", 256, "bf16") == 16
    assert rows_at_once("tiny", 200, "bf16") == 16  # 20 leave one process 40 of 64 rows
    assert rows_at_once("tiny", 200, "bf16", micro_batch_size=5) == 5
    assert rows_at_once("base", 128, "bf16") == 8
    assert rows_at_once("base", 128, "fp32") == 4
    assert rows_at_once("base", 512, "fp32") == 1  # keeps 0.8 GB
