"""Systems beside BERT under equal terms: the same text, the same length, the same gaps."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from refusals import refuses
from stop_at import StopAt
from tiny_models import write_csv

from bertsmith.comparison.gap_evaluation import GapEvaluation
from bertsmith.comparison.job import compare
from bertsmith.comparison.recipes import read_comparison
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.data.corpus import Corpus
from bertsmith.errors import BertsmithError, ConfigError, Interrupted
from bertsmith.lineage.elmo_folder import load_elmo
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.lineage.recurrent_folder import load_recurrent
from bertsmith.lineage.t5_folder import load_t5
from bertsmith.model.loading import load_model

FILE = """
steps = 4
seeds = 2
sentences = ["bace [MASK] difo"]

[shared.training]
batch_size = 4
[shared.optim]
learning_rate = 1e-3

[recipes.bert]
model = { preset = "tiny", max_position_embeddings = 32, hidden_dropout_prob = 0.0 }
pretraining.max_length = 16
[recipes.gpt]
system = "gpt"
model = { preset = "tiny", max_length = 16 }
[recipes.lstm]
system = "lstm"
model = { preset = "tiny", max_length = 16, cell = "gru" }
[recipes.elmo]
system = "elmo"
model = { preset = "tiny", max_length = 16 }
[recipes.t5]
system = "t5"
model = { preset = "tiny", max_length = 16 }

[tasks.words]
task = "classify"
train = "train.csv"
eval = "eval.csv"
steps = 2
batch_size = 5
[tasks.names]
task = "tag"
train = "names.tsv"
eval = "names.tsv"
steps = 2
batch_size = 5
"""
LOADERS = {
    "bert": load_model,
    "gpt": load_gpt,
    "lstm": load_recurrent,
    "elmo": load_elmo,
    "t5": load_t5,
}


def write_lab(folder, corpus_dir):
    (folder / "lab.toml").write_text(FILE)
    for name, count in (("train", 23), ("eval", 11)):
        rows = [(f"{label} guha.", label) for label in ["bace", "difo"] * count][:count]
        write_csv(folder / f"{name}.csv", ("text", "label"), *rows)
    sentence = "bace\tO\nguha\tB-X\n\n"
    (folder / "names.tsv").write_text(7 * sentence)
    return ComparisonSettings(
        (folder / "lab.toml",), corpus_dir, folder / "out", data=folder, eval_rows=6,
        final_rows=13, measure_memory=False, device="cpu", precision="fp32", threads=1,
    )  # fmt: skip


@pytest.fixture
def settings(tmp_path, corpus_dir):
    return write_lab(tmp_path, corpus_dir)


@pytest.fixture(scope="module")
def lineage(tmp_path_factory, corpus_dir):
    """The settings of a comparison of systems that was never stopped."""
    settings = write_lab(tmp_path_factory.mktemp("lineage"), corpus_dir)
    compare(settings)
    return settings


def report_of(settings):
    return json.loads((settings.out / "comparison.json").read_text())


@pytest.mark.parametrize("name", LOADERS)
def test_figures_are_those_of_the_saved_model(lineage, corpus_dir, name):
    figures = report_of(lineage)["figures"]
    model = LOADERS[name](lineage.out / name / "seed-1").eval()
    with torch.inference_mode():
        expected = GapEvaluation(Corpus.open(corpus_dir, "held_out"), 16, 13)(model)
    assert set(expected) == {"gap_bits_per_byte", "gap_accuracy"}
    for metric, value in expected.items():
        assert figures[metric]["recipes"][name]["values"][1] == pytest.approx(value, rel=1e-5)
    assert (figures["one_segment_loss"]["recipes"][name]["values"] != [None, None]) == (
        name == "bert"
    )


def test_tasks_are_scored_where_a_system_learns_them(lineage):
    figures = report_of(lineage)["figures"]
    own_rows = {"lm_accuracy", "forward_accuracy", "backward_accuracy", "span_accuracy"}
    assert not own_rows & figures.keys()  # each run has other rows, so these are not compared
    learned = {
        task: [name for name in LOADERS if None not in figures[task]["recipes"][name]["values"]]
        for task in ("words", "names")
    }
    assert learned == {"words": list(LOADERS), "names": ["bert"]}


def test_each_proposes_words_for_the_sentences(lineage):
    runs = report_of(lineage)["runs"]
    assert [run["recipe"] for run in runs if run["seed"] == 0] == list(LOADERS)
    for run in runs:
        ((first, *others),) = run["guesses"]
        assert 0 < first["percent"] <= 100 and len(others) == 2
    page = (lineage.out / "comparison.html").read_text()
    assert "What each predicts at the same gap" in page and "bace [MASK] difo" in page
    assert "bits per byte over minutes" in page and "model.family" in page


def test_the_cost_of_each_run_is_told(lineage):
    runs = report_of(lineage)["runs"]
    for cost in (run["cost"] for run in runs):
        assert cost["steps"] == 4 and cost["parameters"] > 10_000 and cost["minutes"] > 0


@pytest.mark.same_on_all_computers
def test_a_finished_comparison_gets_the_peak_memory_that_it_lacks(lineage, tmp_path):
    settings = replace(lineage, out=shutil.copytree(lineage.out, tmp_path / "out"))
    path = tmp_path / "two.toml"
    start, t5 = FILE.partition("[recipes.gpt]")[0], FILE[FILE.index("[recipes.t5]") :]
    path.write_text(start + t5)
    settings = replace(settings, files=(path,), measure_memory=True)
    told = []
    compare(settings, log=told.append)
    assert [line for line in told if "memory" in line] == [
        "bert: measuring peak memory",
        "t5: measuring peak memory",
    ]
    report = report_of(settings)
    for name in ("bert", "t5"):
        costs = [run["cost"] for run in report["runs"] if run["recipe"] == name]
        assert ["memory_bytes" in cost for cost in costs] == [True, False]
        # More than torch alone takes.
        assert 50e6 < costs[0]["memory_bytes"] < 16e9
        assert report["recipes"][name]["cost"]["memory_bytes"] == costs[0]["memory_bytes"]
    table = str(compare(replace(settings, measure_memory=False), log=told.append))
    (row,) = (line for line in table.splitlines() if line.startswith("peak memory (MB)"))
    costs = [report["recipes"][name]["cost"]["memory_bytes"] for name in ("bert", "t5")]
    assert row.split()[3:] == [f"{cost / 1e6:,.0f}" for cost in costs]
    compare(settings, log=told.append)
    assert sum("memory" in line for line in told) == 2
    page = (settings.out / "comparison.html").read_text()
    assert "peak memory (MB)" in page and "a process of its own" in page


def test_other_sentences_are_filled_by_the_finished_models(lineage, tmp_path):
    settings = replace(lineage, out=shutil.copytree(lineage.out, tmp_path / "out"))
    path = tmp_path / "other.toml"
    new = '"[MASK] guha", "bace [MASK] difo"'
    path.write_text(FILE.replace('"bace [MASK] difo"', new))
    compare(replace(settings, files=(path,)))
    for run, before in zip(report_of(settings)["runs"], report_of(lineage)["runs"], strict=True):
        _, again = run["guesses"]
        (once,) = before["guesses"]
        assert [each["token"] for each in again] == [each["token"] for each in once]
        # Two sentences in a batch may be rounded otherwise than one.
        assert [each["percent"] for each in again] == pytest.approx(
            [each["percent"] for each in once], rel=1e-4
        )
    path.write_text(FILE.replace("sentences", "# sentences", 1))
    compare(replace(settings, files=(path,)))
    assert not any("guesses" in run for run in report_of(settings)["runs"])
    (settings.out / "t5" / "seed-1" / "model.safetensors").unlink()
    without_tasks = FILE.partition("[tasks.words]")[0]  # these would begin with the weights
    path.write_text(without_tasks.replace("bace", "difo", 1))
    report = compare(replace(settings, files=(path,)))
    assert [error.split(":")[0] for error in report.errors] == ["t5, seed 1"]
    figures = report_of(lineage)["figures"]["gap_accuracy"]
    assert report_of(settings)["figures"]["gap_accuracy"] == figures


@pytest.mark.same_on_all_computers
def test_runs_that_were_measured_without_systems_are_not_mixed_with_systems(lineage, tmp_path):
    settings = replace(lineage, out=shutil.copytree(lineage.out, tmp_path / "out"))
    path = tmp_path / "berts.toml"
    start = FILE.partition("[recipes.gpt]")[0]
    bert = start[start.index("[recipes.bert]") :].replace("recipes.bert", "recipes.other")
    path.write_text(start + bert)
    with refuses(ConfigError, "/bert/seed-0", "with systems beside BERT", "--out"):
        compare(replace(settings, files=(path,)))


def test_the_page_tells_which_tokens_are_predicted(lineage):
    rows = report_of(lineage)["equal"]["common held-out rows"]
    assert "the same token is missing for all" in rows and "15 % masked" in rows


@pytest.mark.same_on_all_computers
def test_the_page_of_systems_in_a_browser(lineage, check_page):
    check_page(lineage.out / "comparison.html")


def test_a_stopped_run_of_a_system_goes_on(lineage, tmp_path):
    settings = replace(lineage, out=shutil.copytree(lineage.out, tmp_path / "out"))
    shutil.rmtree(settings.out / "gpt" / "seed-1")
    with refuses(Interrupted, "step 2,", "step-00000002", ": typed again"):
        compare(settings, [StopAt(2)], "typed again")
    told = []
    compare(settings, log=told.append)
    assert sum("already" in line for line in told) == 9 + 11
    assert report_of(settings)["figures"] == report_of(lineage)["figures"]


@pytest.mark.same_on_all_computers
def test_an_earlier_run_of_a_system_with_other_settings_is_refused(lineage, tmp_path):
    out = shutil.copytree(lineage.out, tmp_path / "out")
    shutil.rmtree(out / "bert")
    with refuses(ConfigError, "/gpt/seed-0: ", "steps was 4, is now 5"):
        compare(replace(lineage, out=out, steps=5))


@pytest.mark.parametrize("before, after, parts", [
    ('system = "gpt"', 'system = "elma"', ["recipes.gpt: system: found 'elma'", "gpt, lstm"]),
    ('cell = "gru"', 'cell = "gra"', ["recipes.lstm: model: cell: ", "gru"]),
    ("max_length = 16, cell", "max_lenght = 16, cell", ["recipes.lstm: model: ", "max_lenght"]),
    ('system = "t5"', 'system = "t5"\npretraining.pairs = "none"', ["recipes.t5: ", "pretraining"]),
    ("bace [MASK] difo", "bace difo", ["lab.toml: sentences: ", "[MASK]"]),
    ("bace [MASK] difo", "bace [MASK] [MASK]", ["sentences: ", "one word"]),
    ("bace [MASK] difo", "[MASK]" + 16 * " difo", ["sentences: ", "allowed are 16"]),
    ('"elmo"\nmodel = {', '"elmo"\nmodel = { cell_size = 5,', ["recipe 'elmo': ", "cell_size"]),
    ("steps = 4", "flops = 1e12", ["recipe 'gpt': ", "minutes, tokens or steps"]),
    ('"gpt"\nmodel = { preset = "tiny", max_length = 16 }', '"gpt"\nmodel = 3',
     ["recipes.gpt: model: found 3", "a table"]),
])  # fmt: skip
def test_what_is_wrong_with_a_system(settings, before, after, parts):
    (path,) = settings.files
    path.write_text(path.read_text().replace(before, after, 1))
    with refuses(BertsmithError, *parts):
        read_comparison(settings)
    assert not settings.out.exists()


def test_what_recipes_share_of_a_bert_does_not_reach_a_system(settings):
    (path,) = settings.files
    shared = '[shared.model]\nhidden_dropout_prob = 0.1\n[shared.pretraining]\npairs = "none"\n'
    path.write_text(path.read_text().replace("[recipes.bert]", f"{shared}[recipes.bert]"))
    bert, gpt, *_ = read_comparison(settings).recipes
    assert bert.job.pretraining.pairs == "none"
    assert gpt.training.batch_size == bert.training.batch_size == 4


def test_a_budget_of_tokens_becomes_steps_of_each_system(settings):
    (path,) = settings.files
    path.write_text(path.read_text().replace("steps = 4", "tokens = 3000", 1))
    comparison = read_comparison(settings)
    for recipe in comparison.recipes:
        assert recipe.training.steps > 1 and recipe.training.minutes is None
        assert recipe.estimate_seconds() > 0
