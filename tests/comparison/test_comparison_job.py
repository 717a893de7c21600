"""Recipes under equal terms: the same rows for all, nothing twice, and what fails stays alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lab_files import write_lab
from stop_at import StopAt

from bertsmith.cli import main
from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.comparison.job import compare
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.model.loading import load_model
from bertsmith.training.journal import read_journal

NAMES = ["next sentence", "no pairs", "100/0/0"]


def small(folder: Path, corpus_dir: Path) -> ComparisonSettings:
    return ComparisonSettings(
        (folder / "lab.toml",), corpus_dir, folder / "out", data=folder, eval_rows=6,
        final_rows=13, device="cpu", precision="fp32", threads=1,
    )  # fmt: skip


@pytest.fixture
def settings(lab: Path, corpus_dir: Path) -> ComparisonSettings:
    return small(lab, corpus_dir)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, corpus_dir: Path) -> Path:
    """The folder of a comparison that was never stopped."""
    folder = write_lab(tmp_path_factory.mktemp("lab"))
    compare(small(folder, corpus_dir))
    return folder


def figures(folder: Path) -> dict:
    return json.loads((folder / "out" / "comparison.json").read_text())


def test_figures_are_those_of_the_saved_models(finished: Path, corpus_dir: Path) -> None:
    found = figures(finished)
    held_out = Corpus.open(corpus_dir, "held_out")
    for name in NAMES:
        folder = finished / "out" / name.replace(" ", "-").replace("/", "-") / "seed-1"
        with torch.inference_mode():
            for paired, kind in ((False, "one_segment"), (True, "two_segments")):
                expected = CommonEvaluation(held_out, 16, 13, paired)(load_model(folder).eval())
                for figure, value in expected.items():
                    values = found["figures"][f"{kind}_{figure}"]["recipes"][name]["values"]
                    assert values[1] == pytest.approx(value, rel=1e-5)
        entries = read_journal(folder / "journal.jsonl")
        assert sum("held_out_common_eval_loss" in entry for entry in entries) == 5
        run = json.loads((folder / "words" / "run.json").read_text())
        values = found["figures"]["words"]["recipes"][name]["values"]
        assert values[1] == run["result"]["evaluation"]["accuracy"]
        assert (folder / "model.safetensors").exists()
        assert not (folder / "words" / "model.safetensors").exists()
        assert not (folder / "checkpoints").exists()


class Stop(StopAt):
    """Asks run number `run` to stop after its second step, as Ctrl-C does."""

    def __init__(self, run: int) -> None:
        super().__init__(2)
        self.run = run

    def begin(self, computing: str) -> None:
        self.run -= 1

    def write(self, entry: dict, status: object) -> None:
        # The step's held-out figures follow it: a second Ctrl-C would be one too many.
        if self.run == 0 and "learning_rate" in entry:
            super().write(entry, status)


def test_a_stopped_comparison_goes_on(
    lab: Path, settings: ComparisonSettings, finished: Path
) -> None:
    with pytest.raises(Interrupted, match="Continue with: typed again"):
        compare(settings, [Stop(5)], "typed again")
    assert not (settings.out / "comparison.json").exists()
    done = sorted(settings.out.glob("*/*/journal.jsonl"))
    before = {path: path.stat().st_mtime_ns for path in done}
    assert len(done) == 3
    told: list[str] = []
    compare(settings, tell=told.append)
    assert sum("already" in line for line in told) == 2 + 2
    assert sum(before[path] == path.stat().st_mtime_ns for path in done) == 2
    mine, whole = figures(lab), figures(finished)
    assert mine["figures"] == whole["figures"]
    times = (settings.out / "no-pairs" / "seed-0" / "journal.jsonl").stat().st_mtime_ns
    told.clear()
    compare(replace(settings, seeds=3), tell=told.append)  # a seed more
    assert sum("pre-trained already" in line for line in told) == 6
    assert (settings.out / "no-pairs" / "seed-0" / "journal.jsonl").stat().st_mtime_ns == times


def test_earlier_runs_with_other_settings_are_refused(
    finished: Path, corpus_dir: Path, tmp_path: Path
) -> None:
    settings = small(finished, corpus_dir)
    before = (finished / "out" / "comparison.json").read_bytes()
    with pytest.raises(ConfigError, match=r"steps was 4, is now 5"):
        compare(replace(settings, steps=5))
    with pytest.raises(ConfigError, match="measured on 13 rows of 16 tokens, where 17 of 16 are"):
        compare(replace(settings, final_rows=17))
    other = shutil.copytree(corpus_dir, tmp_path / "corpus")
    rebuilt = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(rebuilt))  # other bytes, another corpus
    folder = shutil.copytree(finished / "out", tmp_path / "out")
    for path in folder.rglob("run.json"):
        path.write_text(path.read_text().replace(str(corpus_dir), str(other)))
    with pytest.raises(ConfigError, match="the corpus is not the one that it began with"):
        compare(replace(settings, corpus=other, out=folder))
    assert (finished / "out" / "comparison.json").read_bytes() == before


def test_what_fails_is_noted_and_the_others_go_on(
    lab: Path, settings: ComparisonSettings, corpus_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (lab / "lab.toml").read_text()
    # Beyond what fp32 can hold: the second step finds no finite loss.
    broken = "[recipes.broken]\noptim = { learning_rate = 1e30, max_grad_norm = 0.0 }\n\n[tasks"
    (lab / "lab.toml").write_text(text.replace("[tasks", broken, 1))
    words = [lab / "lab.toml", "--corpus", corpus_dir, "--out", settings.out, "--data", lab,
             "--seeds", 1, "--device", "cpu", "--precision", "fp32", "--threads", 1,
             "--eval-rows", 6, "--final-rows", 13]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main(["compare", *map(str, words)])
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert "1 of the runs failed" in captured.err
    assert "failed:\n  broken, seed 0: pre-training failed: after step" in captured.out
    found = figures(lab)
    assert len(found["errors"]) == 1
    loss = found["figures"]["one_segment_loss"]
    assert loss["recipes"]["broken"] == {"values": [None]}
    assert list(loss["differences"]) == NAMES[1:]
    assert all(each["p"] is None for each in loss["differences"].values())
    assert "What failed" in (settings.out / "comparison.html").read_text()
    assert (
        "no spread over seeds: nothing is known about noise"
        in (settings.out / "comparison.md").read_text()
    )


def test_as_it_is_typed_and_what_the_page_tells(
    finished: Path, corpus_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [finished / "lab.toml", "--corpus", corpus_dir, "--out", finished / "out",
             "--data", finished, "--device", "cpu", "--precision", "fp32", "--threads", 1,
             "--eval-rows", 6, "--final-rows", 13]  # fmt: skip
    main(["compare", *map(str, words)])
    captured = capsys.readouterr()
    assert captured.err.count("pre-trained already") == 6
    head, *rows = captured.out.splitlines()
    assert head.split("  ")[-1].strip() == "100/0/0"
    assert any(row.startswith("words: accuracy") for row in rows)
    assert any(row.startswith("larger than noise: ") for row in rows)
    main(["compare", *map(str, words), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found == figures(finished)
    loss, nsp = found["figures"]["one_segment_loss"], found["figures"]["nsp_accuracy"]
    values = {name: each["values"] for name, each in loss["recipes"].items()}
    assert list(values) == NAMES and list(loss["differences"]) == NAMES[1:]
    for name, each in loss["recipes"].items():
        assert each["mean"] == pytest.approx(np.mean(values[name]))
        assert each["sd"] == pytest.approx(np.std(values[name], ddof=1))
    for name, each in loss["differences"].items():
        gap = np.mean(values[name]) - np.mean(values[NAMES[0]])
        assert each["mean"] == pytest.approx(gap) and each["low"] <= gap <= each["high"]
        assert each["is_larger_than_noise"] == (not each["low"] <= 0 <= each["high"])
    assert nsp["recipes"]["no pairs"]["values"] == [None, None]
    assert list(nsp["differences"]) == ["100/0/0"]
    page = (finished / "out" / "comparison.html").read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    for text in (*NAMES, "loss over million tokens", "loss over minutes", "Larger than noise?",
                 "pretraining.pairs", "within noise", "4 steps", "Bonferroni"):  # fmt: skip
        assert text in page
    assert page.count('class="area') == 2 * len(NAMES)
    assert "pretraining.max_length" not in page
    markdown = (finished / "out" / "comparison.md").read_text()
    assert "| pretraining.pairs | next_sentence | none | next_sentence |" in markdown
    assert all(text in markdown for text in (*NAMES, "Bonferroni"))
