"""GLUE in one command: every task once for each seed, never twice, and the official scores."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from close_figures import close
from refusals import refuses
from tiny_models import reviews, save_tiny

from bertsmith.data.glue import GLUE_TASKS
from bertsmith.errors import ConfigError, InputError
from bertsmith.errors.option_names import options_in
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.glue import GlueReport, GlueRun, run_glue, select_official_scores
from bertsmith.finetuning.glue_settings import GlueSettings
from bertsmith.tasks.auto import load

FEW = {"steps": 1, "threads": 1, "device": "cpu", "precision": "fp32", "seeds": 2}


def write(path, head, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*head, *rows]) + "\n")


def rows_of(name, count, seed):
    """The rows of a task's file, and before them its first line, where it has one."""
    rng, texts = np.random.default_rng(seed), list(enumerate(reviews(count, seed)))
    if name == "CoLA":
        return [], [f"x\t{int(e.label == 'pos')}\t\t{e.text}" for _, e in texts]
    head = ["index\tsentence1\tsentence2\t" + ("score" if name == "STS-B" else "label")]
    if name == "STS-B":
        return head, [f"{i}\t{e.text}\tgood\t{5 * rng.random():.3f}" for i, e in texts]
    if name == "MNLI":
        names = ["neutral", "entailment", "contradiction"]
        head = ["index\tsentence1\tsentence2\tgold_label"]
        return head, [f"{i}\t{e.text}\ta\t{names[i % 3]}" for i, e in texts]
    names = {"pos": "entailment", "neg": "not_entailment"}
    return head, [f"{i}\t{e.text}\ta\t{names[e.label]}" for i, e in texts]


@pytest.fixture
def settings(tmp_path):
    data = tmp_path / "glue"
    for name in ("CoLA", "RTE", "STS-B"):
        write(data / name / "train.tsv", *rows_of(name, 23, 0))
        write(data / name / "dev.tsv", *rows_of(name, 11, 1))
    model = save_tiny(tmp_path / "model", "masked_lm")
    return GlueSettings(model=model, data=data, out=tmp_path / "out", **FEW)


class Stopped(Exception):
    """The machine is switched off."""


class Switch:
    """Ends everything at a step of the run number `run`."""

    def __init__(self, run):
        self.run = run

    def begin(self, computing):
        self.run -= 1

    def write(self, entry, status):
        if self.run == 0 and entry["step"] == 1:
            raise Stopped


def test_each_run_computes_as_the_benchmark_is_told(settings):
    run_glue(replace(settings, tasks=("RTE",), seeds=1, exact=True))
    stored = json.loads((settings.out / "RTE" / "seed-0" / "run.json").read_text())["settings"]
    assert (stored["exact"], stored["threads"]) == (True, 1)
    assert (stored["device"], stored["precision"]) == ("cpu", "fp32")


def test_every_task_with_its_own_scores_and_no_run_twice(settings):
    with pytest.raises(Stopped):
        run_glue(settings, [Switch(4)])
    runs = settings.out.glob("*/*/run.json")
    done = [path.with_name("journal.jsonl") for path in runs if '"glue":' in path.read_text()]
    assert len(done) == 3
    times, told = [path.stat().st_mtime_ns for path in done], []
    report = run_glue(settings, [], "glue", told.append)
    assert [path.stat().st_mtime_ns for path in done] == times
    assert sum("was done before" in line for line in told) == 3
    assert {name: set(runs[0].scores[name]) for name, runs in report.runs.items()} == {
        "CoLA": {"matthews_correlation"}, "STS-B": {"pearson", "spearman"}, "RTE": {"accuracy"},
    }  # fmt: skip
    for name, runs in report.runs.items():
        assert [run.seed for run in runs] == [0, 1]
        (best,) = [run for run in runs if (run.folder / "model.safetensors").exists()]
        assert best == max(runs, key=lambda run: run.mean_score)
        predictor = load(best.folder, device="cpu", precision="fp32")
        columns = next(task.columns for task in GLUE_TASKS if task.name == name)
        found = evaluate(predictor, settings.data / name / "dev.tsv", columns).to_json()
        assert best.scores[name] == close({score: found[score] for score in best.scores[name]})
    saved = json.loads((settings.out / "glue.json").read_text())
    assert saved == report.to_json()
    figures = np.mean([[run.mean_score for run in runs] for runs in report.runs.values()], axis=0)
    assert saved["average"]["values"] == pytest.approx(figures)
    assert saved["average"]["sd"] == pytest.approx(np.std(figures, ddof=1))
    stopped = list(report.runs)[1]
    alone = run_glue(replace(settings, tasks=(stopped,), out=settings.out.with_name("alone")))
    assert [run.scores for run in report.runs[stopped]] == [
        run.scores for run in alone.runs[stopped]
    ]


def test_as_it_is_typed_seeds_and_tasks_may_be_added(settings, typed):
    glue = partial(
        typed, "glue", "--model", settings.model, "--data", settings.data, "--out", settings.out,
        "--steps", 1, "--device", "cpu", "--precision", "fp32", "--threads", 1, "--sample", 7,
    )  # fmt: skip
    assert set(json.loads(glue("--tasks", "cola", "--seeds", 1, "--json").out)["tasks"]) == {"CoLA"}
    printed = glue("--tasks", "CoLA", "RTE", "--seeds", 2)
    assert printed.err.count("was done before") == 1
    assert printed.out.splitlines()[-3].startswith("average")
    folders = [settings.out / "CoLA" / f"seed-{seed}" for seed in (0, 1)]
    runs = [json.loads((folder / "run.json").read_text()) for folder in folders]
    assert [run["result"]["num_train"] for run in runs] == [7, 7]
    assert runs[0]["config"]["train_sha256"] != runs[1]["config"]["train_sha256"]


def test_a_run_without_its_scores_is_scored_again_and_another_refused(settings):
    rte = replace(settings, tasks=("RTE",), seeds=1)
    expected = run_glue(rte)
    folder = settings.out / "RTE" / "seed-0"
    path, weights = folder / "run.json", folder / "model.safetensors"
    run, written = json.loads(path.read_text()), weights.stat().st_mtime_ns
    for lost in (["glue"], ["glue", "result"]):  # cut off before they were noted
        path.write_text(json.dumps({k: v for k, v in run.items() if k not in lost}))
        assert run_glue(rte).runs["RTE"][0].scores == expected.runs["RTE"][0].scores
        assert weights.stat().st_mtime_ns == written
    with refuses(ConfigError, "RTE/seed-0: ", "--batch-size was 16, is now 8"):
        run_glue(replace(rte, batch_size=8))
    with refuses(InputError, "glue: no MRPC", "CoLA, STS-B, RTE"):
        run_glue(replace(rte, tasks=("MRPC",)))
    weights.unlink()  # as if another were better
    run_glue(rte)  # nothing to predict, so none are needed
    write(settings.data / "RTE" / "test.tsv", ["index\tsentence1\tsentence2"], ["0\ta\tgood"])
    with refuses(ConfigError, "RTE/seed-0: ", "--seeds", "--out"):
        run_glue(rte)


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(
    ("file", "head", "row", "column", "advice"),
    [
        (
            "train.tsv",
            "index\tquestion\tsentence2\tlabel",
            "0\ta\tb\tx",
            "'sentence1'",
            "gluebenchmark.com",
        ),
        (
            "dev.tsv",
            "index\tsentence1\tsentence2\tlabels",
            "0\ta\tb\tx",
            "'label'",
            "gluebenchmark.com",
        ),
        ("test.tsv", "index\ttext1\tsentence2", "0\ta\tb", "'sentence1'", "Rename the right one"),
    ],
)
def test_advice_on_a_file_names_no_option_that_glue_lacks(
    settings, file, head, row, column, advice
):
    write(settings.data / "RTE" / file, [head], [row])
    with refuses(InputError, f"RTE/{file}: ", column, "Columns found", advice) as caught:
        run_glue(replace(settings, tasks=("RTE",), seeds=1))
    assert list(options_in(caught.value.message)) == []


def test_figures_of_glue(tmp_path):
    mrpc = next(task for task in GLUE_TASKS if task.name == "MRPC")
    classes = [{"label": "0", "f1": 0.25}, {"label": "1", "f1": 0.75}]
    report = {"accuracy": 0.5, "macro_f1": 0.5, "classes": classes}
    assert select_official_scores(mrpc, report) == {
        "accuracy": 0.5,
        "f1": 0.75,
    }  # that of the label 1
    scores = [{"accuracy": 0.8, "f1": 0.9}, {"accuracy": 0.8, "f1": 0.8}]
    runs = [GlueRun("MRPC", i, tmp_path, {"MRPC": each}, 61.4) for i, each in enumerate(scores)]
    _, row, *_ = str(GlueReport(tmp_path, {"MRPC": runs}, ())).splitlines()
    assert " ".join(row.split()) == "MRPC accuracy 80.0 ± 0.0, F1 85.0 ± 7.1 82.5 ± 3.5 123 s"


def test_mnli_is_scored_twice_and_submissions_hold_every_row(settings):
    for name, count in (("train", 23), ("dev_matched", 11), ("dev_mismatched", 13)):
        write(settings.data / "MNLI" / f"{name}.tsv", *rows_of("MNLI", count, count))
    tests = ["index\tsentence1\tsentence2"], ["7\ta good film\tbad", "8\t\tdull"]
    write(settings.data / "MNLI" / "test_mismatched.tsv", *tests)
    write(settings.data / "STS-B" / "test.tsv", *tests)
    settings = replace(settings, tasks=("MNLI", "STS-B"), seeds=1)
    report = run_glue(settings)
    (run,) = report.runs["MNLI"]
    assert list(run.scores) == ["MNLI-m", "MNLI-mm"]
    assert run.mean_score == pytest.approx(
        np.mean([each["accuracy"] for each in run.scores.values()])
    )
    rows = {path.name: [line.split("\t") for line in path.read_text().splitlines()]
            for path in report.submissions}  # fmt: skip
    assert set(rows) == {"MNLI-mm.tsv", "STS-B.tsv"}
    for lines in rows.values():
        assert lines[0] == ["index", "prediction"] and [line[0] for line in lines[1:]] == ["7", "8"]
    labels = {"neutral", "entailment", "contradiction"}
    assert {label for _, label in rows["MNLI-mm.tsv"][1:]} <= labels
    assert all(0 <= float(score) <= 5 for _, score in rows["STS-B.tsv"][1:])
    written = [path.stat().st_mtime_ns for path in report.submissions]
    assert [path.stat().st_mtime_ns for path in run_glue(settings).submissions] == written
    model = load(run.folder, device="cpu", precision="fp32")
    assert rows["MNLI-mm.tsv"][1][1] == model([("a good film", "bad")])[0].label
