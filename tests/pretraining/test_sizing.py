"""Sizes are tried from the smallest on, and the largest that gets enough tokens is taken."""

import json

import pytest
import torch

from bertsmith import cli
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.pretraining import auto_size as sizing
from bertsmith.pretraining.auto_size import choose_preset
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.machine import Machine

MACHINE = Machine(torch.device("cpu"), "fp32", num_processes=1)


@pytest.fixture
def objective(corpus_dir):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    return Pretraining(train, held_out, PretrainingSettings(max_length=16), batch_size=16)


SHAPES = {
    preset: BertConfig.from_preset(preset, 200, max_position_embeddings=32)
    for preset in sizing.NEEDED_TOKENS
}


def test_a_size_that_gets_too_few_tokens_ends_the_search(objective):
    choice = choose_preset(objective, SHAPES, 0.001, MACHINE)
    assert choice.preset == "tiny"
    assert list(choice.tokens) == ["tiny", "mini"]
    assert min(choice.tokens.values()) > 0
    assert "size tiny, the largest that 0.001 minutes serve here" in str(choice)


def test_more_time_serves_a_larger_model(objective, monkeypatch):
    monkeypatch.setattr(sizing, "NEEDED_TOKENS", {"tiny": 0.0, "mini": 1.0, "small": 1e15})
    assert choose_preset(objective, SHAPES, 10.0, MACHINE).preset == "mini"


def test_without_minutes_there_is_nothing_to_choose_by(objective):
    with pytest.raises(ConfigError, match="'auto' without a time"):
        choose_preset(objective, SHAPES, None, MACHINE)


def test_a_run_keeps_the_size_it_chose(corpus_dir, tmp_path, capsys):
    out = tmp_path / "run"
    threads = torch.get_num_threads()
    cli.main(
        ["pretrain", "--preset", "auto", "--minutes", "0.01", "--max-length", "16",
         "--batch-size", "4", "--eval-rows", "4", "--max-position-embeddings", "32",
         "--threads", "1", "--corpus", str(corpus_dir), "--out", str(out)]
    )  # fmt: skip
    assert "size tiny" in capsys.readouterr().err
    run = json.loads((out / "run.json").read_text())
    assert run["config"]["preset"] == "tiny"
    assert "size tiny" in run["computing"]
    assert json.loads((out / "config.json").read_text())["hidden_size"] == 128
    assert torch.get_num_threads() == threads
