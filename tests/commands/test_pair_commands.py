"""Multiple choice and sentence vectors as they are typed."""

import json

import numpy as np
import pytest
from tiny_models import save_tiny
from tiny_runs import FP32

from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.sentence_folder import SentenceFolder

QUESTIONS = "the film was\tgood\tbad\tfine\t0\na story\tdull\tlovely\tawful\t1\n" * 3
LONG = "no such file.tsv " * 99 + "good"  # longer than a path may be
SCORED = "sentence1\tsentence2\tscore\ngood\tfine\t5\ngood\tbad\t0\nbad\tawful\t4.5\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    save_tiny(folder / "model", "masked_lm")
    save_tiny(folder / "encoder")
    SentenceFolder("mean", True, 19).write(folder / "encoder", 24)
    (folder / "questions.tsv").write_text(QUESTIONS)
    (folder / "scored.tsv").write_text(SCORED)
    return folder


COLUMNS = ("--text-column", 1, "--choice-columns", "2-4")


def test_choose(bertsmith, place, tmp_path):
    data, out = place / "questions.tsv", tmp_path / "out"
    trained = json.loads(
        bertsmith("finetune", "choose", "--model", place / "model", "--train", data, "--eval", data,
                  *COLUMNS, "--label-column", 5, "--out", out, "--steps", 2, "--json", *FP32)
    )  # fmt: skip
    labelled = (*COLUMNS, "--label-column", 5)
    evaluated = json.loads(bertsmith("evaluate", out, "--data", data, *labelled, "--json", *FP32))
    assert 0 <= evaluated.pop("expected_calibration_error") <= 1
    assert evaluated == {**trained["evaluation"], "unknown_rate": 0.0}
    assert (evaluated["num_prompts"], evaluated["chance"]) == (6, pytest.approx(1 / 3))
    text = bertsmith("evaluate", out, "--data", data, *labelled, *FP32)
    assert text.startswith(f"accuracy  {evaluated['accuracy']:.4f}   (share of the 6 prompts")
    line = bertsmith("predict", out, "the film was", "good", "bad film", *FP32).strip().split("\t")
    number = int(line[0])
    assert line[2:] == ["the film was", ["good", "bad film"][number]]
    rows = bertsmith("predict", out, "--file", data, *COLUMNS, *FP32).splitlines()
    assert len(rows) == 6


def test_a_folder_overwritten_by_another_task_is_no_encoder_any_more(bertsmith, place, tmp_path):
    out, data = tmp_path / "out", place / "scored.tsv"
    common = ("--out", out, "--steps", 1, *FP32)
    bertsmith("finetune", "embed", "--model", place / "encoder", "--train", data, "--eval", data,
              *common)  # fmt: skip
    assert (out / "modules.json").exists()
    bertsmith("finetune", "regress", "--model", place / "model", "--train", data, "--eval", data,
              *common, "--overwrite")  # fmt: skip
    assert not (out / "modules.json").exists()
    assert SentenceFolder.read(SmallFiles(out)) == SentenceFolder()
    assert not (out / "earlier-run").exists()


def test_typed_texts_that_are_a_pair_or_none(bertsmith, refused, place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    (place / "good").write_text("a file whose name is a word")
    for words, parts in (
        (["good-not-a-file"], ["reads a text and its pair"]),
        (["scored.tsv"], ["is a file", "--file scored.tsv"]),
        (["good", place / "good"], ["is a file", f"--file {place / 'good'}"]),
    ):
        message = refused("predict", "encoder", *words, *FP32)
        assert all(part in message for part in parts)
    (place / "texts.txt").write_text(f"good\n{LONG}\n")
    bertsmith("embed", "encoder", "texts.txt", "--out", tmp_path / "v.npy", *FP32)
    first, second = np.load(tmp_path / "v.npy")
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-6)  # as the folder says
    cosine, *texts = bertsmith("predict", "encoder", "good", LONG, *FP32).strip().split("\t")
    assert float(cosine) == pytest.approx(float(first @ second), abs=1e-4)
    assert texts == ["good", LONG]
