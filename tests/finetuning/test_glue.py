"""GLUE in one command: every task once for each seed, never twice, and the official scores."""

import json
from dataclasses import replace

import numpy as np
import pytest
from close_figures import close
from tiny_models import BAD, GOOD, OTHER, reviews, save_tiny

from bertsmith.cli import main
from bertsmith.data.glue import TASKS
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.glue import GlueReport, GlueRun, GlueSettings, official, run_glue
from bertsmith.tasks.auto import load

FEW = {"steps": 3, "device": "cpu", "precision": "fp32", "seeds": 2}


def lines_of_cola(count, seed):
    return [f"x\t{int(e.label == 'pos')}\t\t{e.text}" for e in reviews(count, seed)]


def lines_of_rte(count, seed):
    names = {"pos": "entailment", "neg": "not_entailment"}
    rows = [f"{i}\t{e.text}\ta\t{names[e.label]}" for i, e in enumerate(reviews(count, seed))]
    return ["index\tsentence1\tsentence2\tlabel", *rows]


def lines_of_sts(count, seed):
    rng = np.random.default_rng(seed)
    head = "index\tsentence1\tsentence2\tscore"
    words = [*GOOD, *BAD, *OTHER[:7]]
    return [head, *(f"{i}\t{rng.choice(words)}\t{rng.choice(words)}\t{5 * rng.random():.3f}"
                    for i in range(count))]  # fmt: skip


def lines_of_mnli(count, seed):
    names = ["neutral", "entailment", "contradiction"]
    rows = [f"{i}\t{e.text}\ta\t{names[i % 3]}" for i, e in enumerate(reviews(count, seed))]
    return ["index\tsentence1\tsentence2\tgold_label", *rows]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def settings(tmp_path):
    data = tmp_path / "glue"
    for name, lines in (("CoLA", lines_of_cola), ("RTE", lines_of_rte), ("STS-B", lines_of_sts)):
        write(data / name / "train.tsv", lines(23, 0))
        write(data / name / "dev.tsv", lines(11, 1))
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
        if self.run == 0 and entry["step"] == 2:
            raise Stopped


def test_every_task_with_its_own_scores(settings):
    report = run_glue(settings)
    assert list(report.runs) == ["CoLA", "STS-B", "RTE"]
    scores = {name: set(runs[0].scores[name]) for name, runs in report.runs.items()}
    assert scores == {
        "CoLA": {"matthews_correlation"},
        "STS-B": {"pearson", "spearman"},
        "RTE": {"accuracy"},
    }
    for name, runs in report.runs.items():
        assert [run.seed for run in runs] == [0, 1]
        with_weights = [run for run in runs if (run.folder / "model.safetensors").exists()]
        assert with_weights == [max(runs, key=lambda run: run.figure)]
        for run in with_weights:
            predictor = load(run.folder, device="cpu", precision="fp32")
            columns = next(task.columns for task in TASKS if task.name == name)
            found = evaluate(predictor, settings.data / name / "dev.tsv", columns).to_json()
            assert run.scores[name] == close({score: found[score] for score in run.scores[name]})
    saved = json.loads((settings.out / "glue.json").read_text())
    assert saved == report.to_json()
    figures = [[run.figure for run in runs] for runs in report.runs.values()]
    assert saved["average"]["values"] == pytest.approx(np.mean(figures, axis=0))
    assert saved["average"]["sd"] == pytest.approx(np.std(np.mean(figures, axis=0), ddof=1))
    assert report.submissions == ()


def test_what_is_complete_is_not_repeated(settings):
    with pytest.raises(Stopped):
        run_glue(settings, [Switch(4)])
    done = [
        path.parent for path in settings.out.glob("*/*/run.json") if '"glue":' in path.read_text()
    ]
    assert len(done) == 3
    times = [(folder / "journal.jsonl").stat().st_mtime_ns for folder in done]
    told = []
    report = run_glue(settings, [], "glue", told.append)
    assert [(folder / "journal.jsonl").stat().st_mtime_ns for folder in done] == times
    assert sum("was done before" in line for line in told) == 3
    whole = run_glue(replace(settings, out=settings.out.parent / "whole"))
    assert [[run.scores for run in runs] for runs in report.runs.values()] == [
        [run.scores for run in runs] for runs in whole.runs.values()
    ]


def test_a_sample_is_drawn_by_each_seed(settings):
    report = run_glue(replace(settings, tasks=("CoLA",), sample=7))
    runs = [json.loads((run.folder / "run.json").read_text()) for run in report.runs["CoLA"]]
    assert [run["result"]["num_train"] for run in runs] == [7, 7]
    assert runs[0]["config"]["train_sha256"] != runs[1]["config"]["train_sha256"]


def test_more_seeds_and_tasks_may_be_added(settings):
    first = run_glue(replace(settings, tasks=("rte",), seeds=1))
    assert list(first.runs) == ["RTE"]
    told = []
    run_glue(replace(settings, tasks=("RTE", "CoLA")), tell=told.append)
    assert [line for line in told if "done" in line] == ["RTE, seed 0, 1 of 2: was done before"]


def test_a_run_cut_off_before_its_scores_were_noted(settings):
    one = replace(settings, tasks=("RTE",), seeds=1)
    expected = run_glue(one)
    path = settings.out / "RTE" / "seed-0" / "run.json"
    run = json.loads(path.read_text())
    weights = path.with_name("model.safetensors").stat().st_mtime_ns
    for lost in (["glue"], ["glue", "result"]):
        path.write_text(json.dumps({k: v for k, v in run.items() if k not in lost}))
        assert run_glue(one).runs["RTE"][0].scores == expected.runs["RTE"][0].scores
        assert path.with_name("model.safetensors").stat().st_mtime_ns == weights


def test_other_settings_are_refused(settings):
    settings = replace(settings, threads=1)
    run_glue(replace(settings, tasks=("RTE",), seeds=1))
    with pytest.raises(ConfigError, match=r"batch_size was 16, is now 8"):
        run_glue(replace(settings, tasks=("RTE",), seeds=1, batch_size=8, threads=2))
    with pytest.raises(ConfigError, match=r"num_parts was 1, is now 2.*--threads"):
        run_glue(replace(settings, tasks=("RTE",), seeds=1, threads=2))


def test_mnli_is_scored_twice_and_submissions_hold_every_row(settings):
    mnli = settings.data / "MNLI"
    write(mnli / "train.tsv", lines_of_mnli(23, 0))
    write(mnli / "dev_matched.tsv", lines_of_mnli(11, 1))
    write(mnli / "dev_mismatched.tsv", lines_of_mnli(13, 2))
    tests = ["index\tsentence1\tsentence2", "7\ta good film\tbad", "8\t\tdull"]
    write(mnli / "test_mismatched.tsv", tests)
    write(settings.data / "STS-B" / "test.tsv", tests)
    report = run_glue(replace(settings, tasks=("MNLI", "STS-B"), seeds=1))
    assert list(report.runs["MNLI"][0].scores) == ["MNLI-m", "MNLI-mm"]
    assert report.runs["MNLI"][0].figure == pytest.approx(
        np.mean([each["accuracy"] for each in report.runs["MNLI"][0].scores.values()])
    )
    names = {path.name: path.read_text().splitlines() for path in report.submissions}
    assert set(names) == {"MNLI-mm.tsv", "STS-B.tsv"}
    for lines in names.values():
        assert lines[0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[1:]] == ["7", "8"]
    assert {line.split("\t")[1] for line in names["MNLI-mm.tsv"][1:]} <= {
        "neutral", "entailment", "contradiction",
    }  # fmt: skip
    assert all(0 <= float(line.split("\t")[1]) <= 5 for line in names["STS-B.tsv"][1:])
    written = [path.stat().st_mtime_ns for path in report.submissions]
    again = run_glue(replace(settings, tasks=("MNLI", "STS-B"), seeds=1))
    assert [path.stat().st_mtime_ns for path in again.submissions] == written
    model = load(report.runs["MNLI"][0].folder, device="cpu", precision="fp32")
    assert names["MNLI-mm.tsv"][1] == f"7\t{model([('a good film', 'bad')])[0].label}"


def test_the_best_of_fewer_seeds_may_have_lost_its_weights(settings):
    cola = replace(settings, tasks=("CoLA",), seeds=1)
    (run,) = run_glue(cola).runs["CoLA"]
    (run.folder / "model.safetensors").unlink()  # as if another seed had been better
    run_glue(cola)  # nothing to predict, so none are needed
    write(settings.data / "CoLA" / "test.tsv", ["index\tsentence", "0\ta good film"])
    with pytest.raises(ConfigError, match=r"its weights were removed.*--seeds as before"):
        run_glue(cola)


def test_f1_is_that_of_the_label_1():
    mrpc = next(task for task in TASKS if task.name == "MRPC")
    classes = [{"label": "0", "f1": 0.25}, {"label": "1", "f1": 0.75}]
    report = {"accuracy": 0.5, "macro_f1": 0.5, "classes": classes}
    assert official(mrpc, report) == {"accuracy": 0.5, "f1": 0.75}


def test_the_table(tmp_path):
    def runs(name, *scores):
        return [
            GlueRun(name, seed, tmp_path, {name: each}, 61.4) for seed, each in enumerate(scores)
        ]

    table = GlueReport(
        tmp_path,
        {
            "CoLA": runs("CoLA", {"matthews_correlation": 0.4}, {"matthews_correlation": 0.42}),
            "MRPC": runs("MRPC", {"accuracy": 0.8, "f1": 0.9}, {"accuracy": 0.8, "f1": 0.8}),
        },
        (),
    )
    rows = [line.split("  ") for line in str(table).splitlines()[:4]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells == [
        ["task", "scores", "mean", "2 seeds"],
        ["CoLA", "MCC 41.0 ± 1.4", "41.0 ± 1.4", "123 s"],
        ["MRPC", "accuracy 80.0 ± 0.0, F1 85.0 ± 7.1", "82.5 ± 3.5", "123 s"],
        ["average", "61.7 ± 1.1"],
    ]


def test_as_it_is_typed(settings, capsys):
    words = ["glue", "--model", settings.model, "--data", settings.data, "--out", settings.out,
             "--tasks", "RTE", "CoLA", "--seeds", 1, "--steps", 2, "--device", "cpu",
             "--precision", "fp32"]  # fmt: skip
    main([str(word) for word in [*words, "--json"]])
    report = json.loads(capsys.readouterr().out)
    assert set(report["tasks"]) == {"CoLA", "RTE"}
    main([str(word) for word in words])
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-3].startswith("average")
    assert captured.err.count("was done before") == 2


def test_nothing_to_run(settings):
    with pytest.raises(InputError, match="no MRPC"):
        run_glue(replace(settings, tasks=("MRPC",)))
    with pytest.raises(ConfigError, match="--seeds: found 0"):
        replace(settings, seeds=0)
