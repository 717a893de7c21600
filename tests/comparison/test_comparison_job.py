"""Recipes under equal terms: the same rows for all, nothing twice, and what fails stays alone."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from refusals import check_message, refuses
from stop_at import StopAt

from bertsmith.cli import main
from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.comparison.job import compare
from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.model.loading import load_model
from bertsmith.training.journal import read_journal

NAMES = ["next sentence", "no pairs", "100/0/0"]


def typed(settings, *more):
    """The same, as it is typed."""
    main(["compare", *map(str, settings.files), "--corpus", str(settings.corpus), "--out",
          str(settings.out), "--data", str(settings.data), "--device", "cpu", "--precision", "fp32",
          "--threads", "1", "--eval-rows", "6", "--final-rows", "13", "--no-measure-memory",
          *more])  # fmt: skip


def test_the_page_in_a_browser(finished, check_page):
    check_page(finished.out / "comparison.html")


def figures(settings):
    return json.loads((settings.out / "comparison.json").read_text())


def test_figures_are_those_of_the_saved_models(finished, corpus_dir):
    held_out, found = Corpus.open(corpus_dir, "held_out"), figures(finished)["figures"]

    def figure(name, of):
        return found[name]["recipes"][of]["values"][1]

    for name in NAMES:
        folder = finished.out / name.replace(" ", "-").replace("/", "-") / "seed-1"
        model = load_model(folder).eval()
        for paired, kind in ((False, "one_segment"), (True, "two_segments")):
            with torch.inference_mode():
                expected = CommonEvaluation(held_out, 16, 13, paired)(model)
            for what, value in expected.items():
                assert figure(f"{kind}_{what}", name) == pytest.approx(value, rel=1e-5)
        entries = read_journal(folder / "journal.jsonl")
        assert sum("held_out_common_eval_loss" in entry for entry in entries) == 5
        run = json.loads((folder / "words" / "run.json").read_text())
        assert figure("words", name) == run["result"]["evaluation"]["accuracy"]
        assert not (folder / "words" / "model.safetensors").exists()
        assert not (folder / "checkpoints").exists()


def test_a_stopped_comparison_goes_on_with_a_seed_more(finished, tmp_path):
    settings = replace(finished, out=shutil.copytree(finished.out, tmp_path / "out"))
    lost = settings.out / "100-0-0" / "seed-1"
    journals = [lost / "journal.jsonl", lost / "words" / "journal.jsonl"]
    shutil.rmtree(lost)
    told = []
    compare(replace(settings, seeds=1), log=told.append)
    assert sum("already" in line for line in told) == 3 + 3
    (settings.out / "comparison.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in settings.out.rglob("journal.jsonl")}
    with refuses(Interrupted, "step 2,", "step-00000002", ": typed again"):
        compare(settings, [StopAt(2)], "typed again")
    assert not (settings.out / "comparison.json").exists()
    told.clear()
    compare(settings, log=told.append)
    assert sum("already" in line for line in told) == 5 + 5
    after = {path: path.stat().st_mtime_ns for path in settings.out.rglob("journal.jsonl")}
    assert {path for path in after if after[path] != before.get(path)} == {*journals}
    assert figures(settings)["figures"] == figures(finished)["figures"]


def test_earlier_runs_with_other_settings_are_refused(finished, corpus_dir, tmp_path):
    other = shutil.copytree(corpus_dir, tmp_path / "corpus")
    rebuilt = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(rebuilt))  # other bytes, another corpus
    folder = shutil.copytree(finished.out, tmp_path / "out")
    for path in folder.rglob("run.json"):
        path.write_text(path.read_text().replace(str(corpus_dir), str(other)))
    before = figures(finished)
    for changes, parts in (
        ({"steps": 5}, ["/next-sentence/seed-0: ", "steps was 4, is now 5"]),
        ({"final_rows": 17}, ["/seed-0/run.json: ", "13 rows of 16", "17 rows of 16", "--out"]),
        ({"corpus": other, "out": folder}, [f"{folder}/next-sentence/seed-0: ", "--out"]),
    ):
        with refuses(ConfigError, *parts):
            compare(replace(finished, **changes))
    assert figures(finished) == before


def test_what_fails_is_noted_and_the_others_go_on(settings, capsys):
    (path,) = settings.files
    # Beyond what fp32 can hold: the second step finds no finite loss.
    broken = "[recipes.broken]\noptim = { learning_rate = 1e30, max_grad_norm = 0.0 }\n\n[tasks"
    both, _, rest = path.read_text().partition('[recipes."100/0/0"]')
    path.write_text(both + broken + rest.partition("[tasks")[2])
    with pytest.raises(SystemExit) as stop:
        typed(settings, "--seeds", "1")
    assert stop.value.code == 2
    captured = capsys.readouterr()
    check_message(captured.err.splitlines()[-1], "runs: 1 failed", ": bertsmith compare ")
    assert "failed:\n  broken, seed 0: pre-training failed: after step" in captured.out
    assert " is unknown with one seed: give --seeds 2 or more\n" in captured.out
    found = figures(settings)
    assert len(found["errors"]) == 1
    loss = found["figures"]["one_segment_loss"]
    assert loss["recipes"]["broken"] == {"values": [None]}
    assert [(name, each["p"]) for name, each in loss["differences"].items()] == [("no pairs", None)]
    page = (settings.out / "comparison.html").read_text()
    assert "What failed" in page and "no spread over seeds" in page


def test_as_it_is_typed_and_what_the_page_tells(finished, capsys):
    typed(finished)
    captured = capsys.readouterr()
    assert captured.err.count("pre-trained already") == 6
    assert "\nwords: accuracy" in captured.out and "\nlarger than noise: " in captured.out
    assert "other scores are shares times 100" in captured.out
    typed(finished, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found == figures(finished)
    loss, nsp = found["figures"]["one_segment_loss"], found["figures"]["nsp_accuracy"]
    assert list(loss["recipes"]) == NAMES and list(loss["differences"]) == NAMES[1:]
    assert nsp["recipes"]["no pairs"]["values"] == [None, None]
    assert list(nsp["differences"]) == ["100/0/0"]
    page = (finished.out / "comparison.html").read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    for text in (*NAMES, "loss over million tokens", "loss over minutes",
                 "pretraining.pairs", "within noise", "4 steps", "Bonferroni"):  # fmt: skip
        assert text in page
    assert "pretraining.max_length" not in page
