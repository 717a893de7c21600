"""Folders of runs that were killed: never used as if they were complete."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import pytest
from refusals import refuses
from samples import write_questions
from tiny_models import save_tiny

import bertsmith
from bertsmith.errors import BertsmithWarning, CheckpointError
from bertsmith.finetuning.run import finetune
from bertsmith.system.locks import hold_folder
from bertsmith.system.run_state import FITTED_HEADS, check_finished
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.settings.answer import AnswerSettings
from bertsmith.tasks.settings.classify import UNUSED_OPTIONS


class KilledError(BaseException):
    """Ends a run at once, as SIGKILL does."""


class KilledBeforeScoring(Answer):
    """The task, in a process that dies when the model is trained and saved."""

    def write_files(self, directory):
        raise KilledError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unfinished")
    save_tiny(folder / "model", "masked_lm")
    write_questions(folder / "train.json", 16)
    data = json.loads((folder / "train.json").read_text())
    for article in data["data"][::2]:
        for question in article["paragraphs"][0]["qas"]:
            question["answers"], question["is_impossible"] = [], True
    (folder / "train.json").write_text(json.dumps(data))
    return folder


@pytest.fixture
def settings(place, tmp_path):
    return AnswerSettings(
        model=place / "model", train=place / "train.json", eval=place / "train.json",
        out=tmp_path / "out", steps=2, device="cpu", precision="fp32", stride=7,
    )  # fmt: skip


def test_what_was_not_scored_is_refused_until_it_is_resumed(settings, tmp_path, refused):
    with pytest.raises(KilledError):
        finetune(KilledBeforeScoring, settings)
    out, data, student = settings.out, settings.train, settings.model
    learning = ("finetune", "answer", "--train", data, "--eval", data, "--out", tmp_path / "next")
    for words in (
        ("predict", out, "--file", data),
        ("evaluate", out, "--data", data),
        ("compress", out, "--layers", 0, "--out", tmp_path / "less"),
        (*learning, "--teacher", out, "--model", student),
        (*learning, "--model", out),
        ("params", out),
    ):
        line = refused(*words)
        assert f"{out}:" in line and "--resume" in line, words
    with refuses(CheckpointError, f"{out}:", "resume"):
        bertsmith.load(out)
    learnt = [(out / name).read_bytes() for name in ("model.safetensors", "journal.jsonl")]
    finetune(Answer, replace(settings, resume=True))
    assert bertsmith.load(out).definition.threshold is not None
    again = [(out / name).read_bytes() for name in ("model.safetensors", "journal.jsonl")]
    assert again == learnt


def test_what_another_process_trains_is_refused(tmp_path):
    (tmp_path / "run.json").write_text('{"config": {}, "command": "pretrain"}')
    with hold_folder(tmp_path), ThreadPoolExecutor(1) as others:
        check_finished(SmallFiles(tmp_path))  # the run itself
        with refuses(CheckpointError, f"{tmp_path}:"):
            others.submit(check_finished, SmallFiles(tmp_path)).result()
    (tmp_path / "checkpoints" / "step-00000007").mkdir(parents=True)
    with refuses(CheckpointError, "--resume", f"{tmp_path}/checkpoints/step-00000007"):
        check_finished(SmallFiles(tmp_path))


@pytest.mark.parametrize(("run", "is_refused"), [
    ({"config": {}, "summary": {}}, True), ({"config": {}, "summary": {}, "result": {}}, False),
    ({"config": {}, "command": "distill pretraining", "summary": {}}, False),
    ({"series": {}, "kind": "seed"}, True), ([], False),
])  # fmt: skip
def test_which_runs_are_complete(tmp_path, run, is_refused):
    (tmp_path / "run.json").write_text(json.dumps(run))
    refused = refuses(CheckpointError, f"{tmp_path}:", "--resume")
    with refused if is_refused else nullcontext():
        check_finished(SmallFiles(tmp_path))


def test_a_checkpoint_of_a_fine_tuning_and_a_damaged_run_are_told_of(tmp_path):
    checkpoint = tmp_path / "checkpoints" / "step-00000003"
    save_tiny(checkpoint, "classify", labels=("neg", "pos"))
    (tmp_path / "run.json").write_text('{"config": {}}')
    with pytest.warns(BertsmithWarning, match="from the middle of a fine-tuning"):
        bertsmith.load(checkpoint)
    (tmp_path / "run.json").write_text('{"config"')
    with pytest.warns(BertsmithWarning, match=r"run\.json: damaged"):
        check_finished(SmallFiles(tmp_path))


def test_the_heads_that_begin_again_are_those_that_refuse_to_resume():
    refusing = [head for head, options in UNUSED_OPTIONS.items() if "resume" in options]
    assert refusing == [*FITTED_HEADS]
