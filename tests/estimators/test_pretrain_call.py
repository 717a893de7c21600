"""Texts become a BERT in one call, by the command's own steps and checks."""

import os
from pathlib import Path

import pytest
import tiny_runs

import bertsmith
from bertsmith.errors import BertsmithError, ConfigError, InputError
from bertsmith.estimators.pretrain import Places
from bertsmith.training.run_folder import RunFolder

SMALL = {"preset": "tiny", "max_length": 16, "batch_size": 4, "eval_rows": 4, "threads": 1,
         "precision": "fp32", "max_position_embeddings": 32, "vocab_size": 150,
         "show_progress": False, "start_steps": 0}  # fmt: skip


@pytest.fixture(scope="module")
def text(corpus_dir):
    return corpus_dir.parent / "text.txt"


def test_a_call_makes_vocabulary_corpus_and_model(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = bertsmith.pretrain(str(text), steps=2, **SMALL)
    assert (os.fspath(model), model.steps) == ("runs/text-bert", 2)
    assert "runs/text-bert" in repr(model)
    assert {path.name for path in Path("runs").iterdir()} == {
        "text-bert", "text-corpus", "text-tokenizer"
    }  # fmt: skip
    settings = RunFolder(model.out).read_run()["settings"]
    assert settings["training"]["minutes"] is None  # the recipe's gives way
    assert settings["optim"]["optimizer"] == "muon"  # and the rest of it holds
    assert bertsmith.load(model).encode(["ba ce"]).shape == (1, 128)
    with pytest.raises(ConfigError, match=r"holds an earlier run. Pass resume"):
        bertsmith.pretrain(text, steps=2, **SMALL)
    again = bertsmith.pretrain(text, steps=1, overwrite=True, seed=3, **SMALL)
    assert again.steps == 1
    further = bertsmith.pretrain(
        [text], out="runs/more", from_=model, steps=1, max_length=16, recipe="continue",
        **{name: SMALL[name] for name in ("batch_size", "eval_rows", "threads", "show_progress")},
    )  # fmt: skip
    assert not Path("runs/more-tokenizer").exists()
    assert bertsmith.load_tokenizer(further.out).vocab == bertsmith.load_tokenizer(model.out).vocab


def test_a_stopped_run_goes_on(corpus_dir, tmp_path):
    out = tmp_path / "m"
    call = {**SMALL, "corpus": corpus_dir, "out": out, "steps": 4, "checkpoint_every": 1}
    with pytest.raises(BertsmithError, match="stopped"):
        bertsmith.pretrain(callbacks=[tiny_runs.StopAtStep(3)], **call)
    assert bertsmith.pretrain(resume=True, **call).steps == 4


@pytest.mark.parametrize("given, message", [
    ({}, "give texts or a corpus"), ({"texts": "none.txt"}, "none.txt: no such file"),
    ({"texts": "@", "minuts": 3}, "no argument 'minuts'. Did you mean 'minutes'"),
    ({"texts": "@", "steps": "3"}, "steps: found '3'"),
    ({"texts": "@", "steps": 0}, "steps: found 0"),
    ({"texts": "@", "recipe": "quarter"}, "Did you mean 'quarter-hour'"),
])  # fmt: skip
def test_what_is_refused_before_time_is_spent(text, tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    given = {name: str(text) if value == "@" else value for name, value in given.items()}
    with pytest.raises(BertsmithError, match=message) as refused:
        bertsmith.pretrain(**given, show_progress=False)
    assert isinstance(refused.value, ConfigError | InputError)
    assert "--" not in str(refused.value)
    assert not list(tmp_path.glob("runs/*"))


def test_names_of_folders():
    assert Places.of("texts/*.txt", None, None).out == Path("runs/my-bert")
    assert Places.of("a/reviews.jsonl.gz", None, None).tokenizer == Path("runs/reviews-tokenizer")
    assert Places.of("x", "models/film", None).corpus == Path("models/film-corpus")
    assert Places.of("runs/reviews-corpus", None, "runs/reviews-corpus").out == Path(
        "runs/reviews-bert"
    )
