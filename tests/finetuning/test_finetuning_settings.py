"""What a command line of `finetune` comes to before anything is read."""

from pathlib import Path

import pytest
from refusals import refuses

from bertsmith.commands.settings import finetune as finetune_command
from bertsmith.errors import ConfigError
from bertsmith.finetuning.resolve import resolve_optim, resolve_steps
from bertsmith.model.config import BertConfig
from bertsmith.tasks.settings.finetune import FinetuneSettings

TINY, BASE = BertConfig(100, 128, 2, 2, 512), BertConfig(100, 768, 12, 12, 3072)


def parse(line: str) -> FinetuneSettings:
    task, *words = line.split()
    required = ["--model", "m", "--train", "t", "--out", "out"]
    settings, _ = finetune_command.parse([*required, *words], f"bertsmith finetune {task}")
    settings.check_held_out()
    return settings


@pytest.mark.parametrize(("line", "steps"), [
    ("classify --eval e", [100, 400, 20000]),  # four epochs, but at least a hundred steps
    ("embed --eval e", [100, 400, 20000]),
    ("classify --eval e --epochs 2.5", [2, 250, 12500]),
    ("classify --eval e --steps 10", [10, 10, 10]),
])  # fmt: skip
def test_epochs_become_steps(line, steps):
    settings = parse(line)
    assert [resolve_steps(settings, per_epoch) for per_epoch in (1, 100, 5000)] == steps


def test_smaller_models_learn_by_larger_steps():
    settings = parse("classify --eval e")
    assert resolve_optim(settings, TINY).learning_rate == 1e-3
    assert resolve_optim(settings, BASE).learning_rate == 5e-5
    assert resolve_optim(parse("tag --eval e --learning-rate 0.01"), BASE).learning_rate == 0.01


@pytest.mark.parametrize(("line", "figure", "is_series"), [
    ("classify --eval e", "accuracy", False),
    ("classify --eval e --multi-label", "micro_f1", False),
    ("classify --eval e --metric macro_f1", "macro_f1", False),
    ("classify --eval e --seeds 3", "accuracy", True),
    ("tag --folds 5", "f1", True),
])  # fmt: skip
def test_what_chooses_the_best_weights(line, figure, is_series):
    settings = parse(line)
    assert (settings.score_key, settings.is_series) == (figure, is_series)


@pytest.mark.parametrize(("line", "parts"), [
    ("classify", ["--eval"]),
    ("classify --eval e --steps 10 --epochs 1", ["--steps", "--epochs"]),
    ("classify --eval e --learning-rate 0", ["--learning-rate: found 0.0"]),
    ("classify --eval e --layer-decay 0", ["--layer-decay: found 0.0"]),
    ("classify --eval e --limit 0", ["--limit: found 0"]),
    ("classify --eval e --seeds 1", ["--seeds: found 1"]),
    ("classify --eval e --seeds 2 --folds 2", ["--seeds", "--folds"]),
    ("classify --eval e --cls-attention reset --from-scratch", ["--from-scratch and --cls-att"]),
    ("tag --eval e --long-texts cut --stride 5", ["--stride 5", "--long-texts cut"]),
    ("classify --eval e --soft-weight 0.9", ["--soft-weight 0.9", "--teacher"]),
])  # fmt: skip
def test_settings_that_exclude_each_other_are_refused(line, parts):
    with refuses(ConfigError, *parts):
        resolve_optim(parse(line), TINY)


def test_the_current_folder_may_be_the_model_or_the_teacher(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    line = ["--train", "train.csv", "--eval", "eval.csv", "--out", str(tmp_path / "out")]
    settings, teaching = finetune_command.parse([*line, "--model", "."], "finetune classify")
    assert (settings.model, teaching) == (Path(), None)
    _, teaching = finetune_command.parse([*line, "--teacher", "."], "finetune classify")
    assert teaching.start == Path()
