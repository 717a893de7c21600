"""The loop: resumed is uninterrupted, accumulated is one batch, and it stops when it must."""

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BertForPreTraining

from bertsmith.data.batches import Batch
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError, InputError, Interrupted, TrainingError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.matrix_products import Precision
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.checkpoint import list_checkpoints, load_checkpoint
from bertsmith.training.journal import read_journal
from bertsmith.training.objective import LossTerm
from bertsmith.training.optim import OptimSettings
from bertsmith.training.recorder import Callback, Status
from bertsmith.training.run_config import RunConfig
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.trainer import Trainer, TrainingSettings
from bertsmith.training.workers.member import step_seed
from bertsmith.training.workers.protocol import step_figures, total_counts

SETTINGS = TrainingSettings(
    steps=12, batch_size=6, seed=3, eval_every=5, eval_rows=7, checkpoint_every=4, keep=9
)
TIMES = ("elapsed_seconds", "tokens_per_second")


def objective(corpus_dir: Path, settings: TrainingSettings = SETTINGS) -> Pretraining:
    return Pretraining(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=settings.batch_size,
        micro_batch_size=settings.micro_batch_size,
        seed=settings.seed,
        eval_rows=settings.eval_rows,
    )


def new_model(dropout: float = 0.1) -> BertModel:
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
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))


def trainer(
    corpus_dir: Path,
    out: Path,
    settings: TrainingSettings = SETTINGS,
    model: BertModel | None = None,
    task: Pretraining | None = None,
    precision: Precision = "fp32",
    callbacks: Sequence[Callback] = (),
    num_processes: int = 1,
    clock: Callable[[], float] = time.monotonic,
    evaluations: EvaluationPlan | None = None,
) -> Trainer:
    task, model = task or objective(corpus_dir, settings), model or new_model()
    optim = OptimSettings(learning_rate=3e-3)
    sizes = {"batch_size": settings.batch_size, "micro_batch_size": task.micro_batch_size}
    limits = {"steps": settings.steps, "minutes": settings.minutes, "seed": settings.seed}
    shape = {"model": asdict(model.config), "optim": asdict(optim), "precision": precision}
    config = RunConfig(
        budget=settings.budget(),
        optim=optim,
        learning_rate=3e-3,
        seed=settings.seed,
        precision=precision,
        num_processes=num_processes,
        identity={**limits, **sizes, **shape, **task.identity()},
        evaluations=evaluations or EvaluationPlan(5, 10, is_limited=False),
        eval_every=settings.eval_every,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
    )
    return Trainer(
        model,
        task,
        RunFolder(out),
        config,
        save=partial(save_model, model, tokenizer=task.train.corpus.tokenizer()),
        callbacks=callbacks,
        resume_command="bertsmith pretrain --resume",
        clock=clock,
    )


def journal_without_times(out: Path) -> list[str]:
    return [
        json.dumps({name: value for name, value in entry.items() if name not in TIMES})
        for entry in read_journal(out / "journal.jsonl")
    ]


class StopAt:
    """Sends this process a signal when a step is written."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGINT) -> None:
        self.step = step
        self.number = number

    def begin(self, computing: str) -> None:
        assert "cpu" in computing

    def write(self, entry: Mapping[str, Any], status: Status) -> None:
        if entry["step"] == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumed_is_uninterrupted_bit_for_bit(
    corpus_dir: Path, tmp_path: Path, precision: Precision
) -> None:
    whole = trainer(corpus_dir, tmp_path / "whole", precision=precision)
    whole.begin({})
    whole.run()

    stopped = trainer(corpus_dir, tmp_path / "stopped", precision=precision, callbacks=[StopAt(7)])
    stopped.begin({})
    with pytest.raises(Interrupted, match=r"stopped after step 7.*bertsmith pretrain --resume"):
        stopped.run()
    newest = list_checkpoints(tmp_path / "stopped" / "checkpoints")[-1]
    assert newest.name == "step-00000007"

    resumed = trainer(
        corpus_dir, tmp_path / "stopped", model=load_model(newest), precision=precision
    )
    resumed.resume(load_checkpoint(newest))
    resumed.run()
    assert journal_without_times(tmp_path / "stopped") == journal_without_times(tmp_path / "whole")
    for (name, one), two in zip(
        whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, two), name


def test_a_killed_run_continues_from_its_last_checkpoint(corpus_dir: Path, tmp_path: Path) -> None:
    whole = trainer(corpus_dir, tmp_path / "whole")
    whole.begin({})
    whole.run()

    class Killed(Exception):
        """Stands for kill -9: nothing runs after it."""

    class KillAt(StopAt):
        def write(self, entry: Mapping[str, Any], status: Status) -> None:
            if entry["step"] == self.step:
                raise Killed

    killed = trainer(corpus_dir, tmp_path / "killed", callbacks=[KillAt(11)])
    killed.begin({})
    with pytest.raises(Killed):
        killed.run()
    with (tmp_path / "killed" / "journal.jsonl").open("a") as file:
        file.write('{"step": 12, "loss": 3.')
    (tmp_path / "killed" / "checkpoints" / ".step-00000012.x.tmp").mkdir()

    newest = list_checkpoints(tmp_path / "killed" / "checkpoints")[-1]
    assert newest.name == "step-00000008"
    resumed = trainer(corpus_dir, tmp_path / "killed", model=load_model(newest))
    resumed.resume(load_checkpoint(newest))
    resumed.run()
    assert journal_without_times(tmp_path / "killed") == journal_without_times(tmp_path / "whole")


def test_a_run_without_checkpoints_resumes_from_its_beginning(
    corpus_dir: Path, tmp_path: Path
) -> None:
    first = trainer(corpus_dir, tmp_path / "run")
    first.begin({})
    (tmp_path / "run" / "journal.jsonl").write_text('{"step": 0, "held_out_loss": 5.0}\n')
    again = trainer(corpus_dir, tmp_path / "run")
    again.resume(None)
    again.run()
    steps = [entry["step"] for entry in read_journal(tmp_path / "run" / "journal.jsonl")]
    assert steps == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 11, 12, 12]


def test_other_settings_cannot_be_resumed(corpus_dir: Path, tmp_path: Path) -> None:
    trainer(corpus_dir, tmp_path / "run").begin({})
    other = replace(SETTINGS, batch_size=7, seed=4)
    with pytest.raises(ConfigError, match=r"seed was 3, is now 4; batch_size was 6, is now 7"):
        trainer(corpus_dir, tmp_path / "run", settings=other).resume(None)


def test_several_processes_learn_the_same(corpus_dir: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, micro_batch_size=2)  # three micro-batches a step
    losses = []
    for num_processes in (1, 2):
        out = tmp_path / f"{num_processes}"
        one = trainer(corpus_dir, out, settings, num_processes=num_processes)
        one.begin({})
        one.run()
        entries = read_journal(out / "journal.jsonl")
        losses.append([entry.get("loss", entry.get("held_out_loss")) for entry in entries])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


class Remembering(Pretraining):
    """Keeps which steps it was asked for, as an objective keeps what it found."""

    made: tuple[int, ...] = ()

    def num_micro_batches(self, step: int) -> int:
        self.made += (step,)
        return super().num_micro_batches(step)

    def __getstate__(self) -> dict[str, Any]:
        time.sleep(0.3)  # a thread that makes batches would have made some by now
        assert not self.made, "it changes while it is sent to the workers"
        return self.__dict__


def test_workers_get_the_objective_before_it_is_worked_with(
    corpus_dir: Path, tmp_path: Path
) -> None:
    task = objective(corpus_dir)
    task.__class__ = Remembering
    settings = replace(SETTINGS, steps=2)
    one = trainer(corpus_dir, tmp_path / "run", settings, task=task, num_processes=2)
    one.begin({})
    assert one.run().steps == 2
    assert isinstance(task, Remembering) and task.made[:2] == (1, 2)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_accumulated_is_one_large_batch(
    corpus_dir: Path, tmp_path: Path, precision: Precision
) -> None:
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
    tolerance = 1e-5 if precision == "fp32" else 3e-2
    for name, value in entries[0].items():
        assert entries[1][name] == pytest.approx(value, rel=tolerance), name
    for whole, parts in zip(*gradients, strict=True):
        difference = (whole - parts).norm() / whole.norm().clamp(min=1e-6)
        assert difference < tolerance


def test_thirty_steps_learn_one_batch_by_heart(corpus_dir: Path, tmp_path: Path) -> None:
    class OneBatch(Pretraining):
        def micro_batch(self, step: int, index: int) -> Batch:
            return super().micro_batch(1, index)

    settings = replace(SETTINGS, steps=30)
    task = OneBatch(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=16),
        batch_size=6,
        eval_rows=5,
    )
    one = trainer(corpus_dir, tmp_path / "run", settings, new_model(dropout=0.0), task)
    one.config = replace(one.config, learning_rate=3e-2)
    one.begin({})
    last = one.run().last_step
    assert last["mlm_accuracy"] == 1.0
    assert last["nsp_accuracy"] == 1.0
    assert last["loss"] < 0.5


@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_a_loss_that_is_no_number_stops_before_the_update(
    corpus_dir: Path, tmp_path: Path, place: str
) -> None:
    class Broken(Pretraining):
        def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
            terms = super().losses(model, batch)
            if broken.state.step == 6:
                factor = torch.tensor(float("nan") if place == "loss" else 1.0)
                if place == "gradient":
                    terms["mlm"].sum.register_hook(lambda gradient: gradient * float("inf"))
                terms["mlm"].sum = terms["mlm"].sum * factor
            return terms

    task = Broken(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=6,
        seed=3,
        eval_rows=7,
    )
    broken = trainer(corpus_dir, tmp_path / "run", task=task)
    broken.begin({})
    with pytest.raises(
        TrainingError, match=r"step 7: .*Nothing was updated.*document \d+"
    ) as caught:
        broken.run()
    assert "nan" in str(caught.value) or "inf" in str(caught.value)
    steps = [entry["step"] for entry in read_journal(tmp_path / "run" / "journal.jsonl")]
    assert max(steps) == 6
    assert all(parameter.isfinite().all() for parameter in broken.model.parameters())
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["step"] == 7
    assert failure["rows"] == task.describe(7)


def test_held_out_figures_that_are_no_numbers_stop_the_run(
    corpus_dir: Path, tmp_path: Path
) -> None:
    class Broken(Pretraining):
        def evaluate(self, model: BertModel) -> dict[str, float]:
            figures = super().evaluate(model)
            return figures if broken.state.step < 5 else {**figures, "held_out_loss": float("nan")}

    task = Broken(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31),
        batch_size=6,
    )
    broken = trainer(corpus_dir, tmp_path / "run", task=task)
    broken.begin({})
    with pytest.raises(TrainingError, match="after step 5: held_out_loss is nan"):
        broken.run()
    assert "NaN" not in (tmp_path / "run" / "journal.jsonl").read_text()
    assert [path.name for path in list_checkpoints(tmp_path / "run" / "checkpoints")] == [
        "step-00000004"
    ]


def test_a_full_disk_says_how_to_go_on(
    corpus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = trainer(corpus_dir, tmp_path / "run")
    one.begin({})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"step 4 .*No space left.*bertsmith pretrain --resume"):
        one.run()


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_transformers_opens_every_checkpoint(corpus_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    one = trainer(corpus_dir, out, precision="bf16")
    one.begin({})
    one.run()
    folders = [*list_checkpoints(out / "checkpoints"), out]
    assert [folder.name for folder in folders] == [
        "step-00000004", "step-00000008", "step-00000012", "run",
    ]  # fmt: skip
    for folder in folders:
        theirs, report = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer("baba ceba")["input_ids"][0] == 2
    word = theirs.bert.embeddings.word_embeddings.weight
    assert word.dtype == torch.float32
    assert torch.equal(word, one.model.embeddings.word.weight)
    # Masters keep what bf16 would round away.
    assert not torch.equal(word, word.bfloat16().float())


class Clock:
    """Time that passes only when somebody looks: a run by it is the same on every machine."""

    def __init__(self, tick: float) -> None:
        self.now = 100.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def test_minutes_end_on_time_with_the_rate_near_zero(corpus_dir: Path, tmp_path: Path) -> None:
    clock = Clock(tick=0.1)
    settings = replace(SETTINGS, steps=None, minutes=1.0, eval_every=None, checkpoint_every=None)
    one = trainer(corpus_dir, tmp_path / "run", settings, clock=clock)
    one.begin({})
    summary = one.run()
    assert clock.now - 100.0 == pytest.approx(60.0, abs=2.0)
    assert summary.elapsed_seconds == pytest.approx(60.0, abs=2.0)
    entries = read_journal(tmp_path / "run" / "journal.jsonl")
    rates = [entry["learning_rate"] for entry in entries if "learning_rate" in entry]
    assert max(rates) > 2.9e-3
    assert rates[-1] < 0.1e-3
    evaluations = [entry for entry in entries if "held_out_loss" in entry]
    assert len(evaluations) == 11  # before the first step, and at every tenth of the time
    assert evaluations[-1]["step"] == summary.steps


def test_a_run_of_one_step_learns(corpus_dir: Path, tmp_path: Path) -> None:
    for name, length in (("steps", {"steps": 1}), ("minutes", {"steps": None, "minutes": 0.001})):
        settings = replace(SETTINGS, eval_every=None, **length)  # type: ignore[arg-type]
        one = trainer(corpus_dir, tmp_path / name, settings, clock=Clock(tick=1.0))
        one.begin({})
        summary = one.run()
        assert summary.steps == 1
        assert summary.last_step["learning_rate"] > 1e-3


def test_evaluations_for_which_the_time_is_spent_are_left_out(
    corpus_dir: Path, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, steps=None, minutes=1.0, eval_every=None)
    plan = EvaluationPlan(7, 10)
    one = trainer(corpus_dir, tmp_path / "run", settings, clock=Clock(0.5), evaluations=plan)
    one.begin({})
    steps = one.run().steps
    entries = read_journal(tmp_path / "run" / "journal.jsonl")
    measured = [entry["step"] for entry in entries if "held_out_loss" in entry]
    assert (measured[0], measured[-1]) == (0, steps)
    assert 2 < len(measured) <= 6  # 0.5 seconds each, and 3 are a twentieth


def test_the_journal_has_the_promised_names(corpus_dir: Path, tmp_path: Path) -> None:
    one = trainer(corpus_dir, tmp_path / "run")
    one.begin({"command": "pretrain"})
    summary = one.run()
    entries = read_journal(tmp_path / "run" / "journal.jsonl")
    step = next(entry for entry in entries if entry["step"] == 1)
    assert set(step) == {
        "step", "loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "gradient_norm",
        "learning_rate", "real_tokens", "tokens_per_second", "elapsed_seconds",
    }  # fmt: skip
    assert step["loss"] == step["mlm_loss"] + step["nsp_loss"]
    assert step["gradient_norm"] > 0
    total = sum(entry["real_tokens"] for entry in entries if "real_tokens" in entry)
    assert summary.real_tokens == total
    assert set(entries[0]) == {
        "step", "elapsed_seconds", "held_out_loss", "held_out_mlm_loss", "held_out_mlm_accuracy",
        "held_out_nsp_loss", "held_out_nsp_accuracy",
    }  # fmt: skip
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["command"] == "pretrain"
    assert run["summary"]["steps"] == 12


def test_no_checkpoints_are_kept_where_none_are_wanted(corpus_dir: Path, tmp_path: Path) -> None:
    one = trainer(corpus_dir, tmp_path / "run", replace(SETTINGS, keep=0))
    one.begin({})
    one.run()
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_dropout_is_seeded_apart() -> None:
    seeds = {step_seed(seed, step) for seed in range(20) for step in range(50)}
    assert len(seeds) == 1000
    torch.manual_seed(max(seeds))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 5, "minutes": 1.0}, "steps = 5 and minutes = 1.0"),
        ({"steps": 0}, r"training\.steps: found 0"),
        ({"batch_size": -1}, r"training\.batch_size: found -1"),
        ({"minutes": 0.0}, r"training\.minutes: found 0\.0"),
        ({"seed": -1}, r"training\.seed: found -1"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingSettings(**change)


def test_a_run_without_a_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="--steps N or --minutes M"):
        TrainingSettings().budget()
