"""Several seeds or folds: the mean and its spread, the best kept, and no run done twice."""

import json
import shutil
import statistics
from collections import Counter
from dataclasses import replace

import pytest
from folders import contents
from refusals import refuses
from samples import prepare
from stop_at import StopAt
from tiny_models import reviews, save_tiny, write_reviews

from bertsmith.data.examples import Example
from bertsmith.data.squad import Question
from bertsmith.data.tagged import TaggedSentence
from bertsmith.errors import CheckpointError, ConfigError, ExamplesError, InputError, Interrupted
from bertsmith.finetuning.folds import split
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly, note_rare_labels
from bertsmith.model.loading import load_model
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.settings.finetune import NOT_GIVEN
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_classification import Tag


def settings_in(folder):
    return prepare("classify", folder, 40, 30, threads=1, steps=6, learning_rate=5e-3)[1]


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A series of three seeds that nothing stopped: its settings, figures and messages."""
    settings, said = settings_in(tmp_path_factory.mktemp("whole")), []
    series = replace(settings, seeds=3)
    return settings, finetune_repeatedly(Classify, series, say=said.append), said


def test_folds_are_scored_on_what_they_hold_out(settings, bertsmith):
    printed = bertsmith(
        "finetune", "classify", "--model", settings.model, "--train", settings.train, "--out",
        settings.out, "--folds", 4, "--steps", 1, "--device", "cpu", "--precision", "fp32",
        "--threads", 1,
    )  # fmt: skip
    result = json.loads((settings.out / "repeats.json").read_text())
    assert [row["evaluation"]["num_texts"] for row in result["results"]] == [10] * 4
    assert [row["num_train"] for row in result["results"]] == [30] * 4
    assert result["names"] == ["fold-1", "fold-2", "fold-3", "fold-4"]
    assert load_model(settings.out).id2label == {0: "neg", 1: "pos"}
    assert "bertsmith evaluate" not in printed  # by what it has learned from


def test_seeds_are_so_many_runs_and_the_best_is_kept(whole, tmp_path):
    settings, repeats, said = whole
    assert said == ["seed-0, 1 of 3", "seed-1, 2 of 3", "seed-2, 3 of 3"]
    scores = [row["evaluation"]["accuracy"] for row in repeats.results]
    assert repeats.figures["accuracy"].mean == pytest.approx(statistics.fmean(scores))
    assert repeats.figures["accuracy"].deviation == pytest.approx(statistics.stdev(scores))
    best = scores.index(max(scores))
    assert repeats.best == f"seed-{best}"
    alone = finetune(Classify, replace(settings, seed=best, out=tmp_path / "alone"))
    assert alone.evaluation.accuracy == scores[best]
    kept, expected = (load_model(out).state_dict() for out in (settings.out, alone.out))
    assert all(value.equal(expected[name]) for name, value in kept.items())
    assert not list((settings.out / "runs").rglob("model.safetensors"))
    assert f"{max(scores):.4f}   <- kept" in str(repeats)


class Watch:
    """Notes the steps that are taken, and stops the second run at its step 4."""

    def __init__(self, stops):
        self.stop, self.num_runs, self.steps = StopAt(4) if stops else None, 0, []

    def begin(self, computing):
        self.num_runs += 1

    def write(self, entry, status):
        if "learning_rate" in entry:
            self.steps.append(entry["step"])
        if self.stop and self.num_runs == 2:
            self.stop.write(entry, status)


def test_a_stopped_series_repeats_nothing(settings, whole):
    series = replace(settings, seeds=3)
    resumed, train = replace(series, resume=True), settings.train.read_bytes()
    with refuses(Interrupted, "runs/seed-1: ", "step 4,", "typed --resume"):
        finetune_repeatedly(Classify, series, [Watch(stops=True)], "typed --resume")
    single = settings.out / "runs" / "seed-1"
    for run, changes, *parts in (
        (finetune_repeatedly, {"resume": False}, "out: ", "--resume", "--overwrite", "--out"),
        (finetune_repeatedly, {"learning_rate": 0.1}, "--learning-rate was 0.005, is now 0.1"),
        (finetune, {"seeds": None}, "out: ", "--out"),
        (finetune_repeatedly, {"out": single}, f"{single}: ", "--out"),
    ):
        with refuses(ConfigError, *parts):
            run(Classify, replace(resumed, **changes))
    write_reviews(settings.train, 50)
    with refuses(ConfigError, "out: ", "train/a.csv", "--out"):
        finetune_repeatedly(Classify, resumed)
    settings.train.write_bytes(train)
    weights = settings.model / "model.safetensors"
    original = weights.read_bytes()
    weights.write_bytes(original[:-1] + b"\x3f")
    with refuses(ConfigError, "out: ", "--model"):
        finetune_repeatedly(Classify, resumed)
    weights.write_bytes(original)
    journal = settings.out / "runs" / "seed-0" / "journal.jsonl"
    before, said, watch = journal.stat().st_mtime_ns, [], Watch(stops=False)
    continued = finetune_repeatedly(Classify, resumed, [watch], say=said.append)
    assert said == ["seed-0, 1 of 3: was done before", "seed-1, 2 of 3", "seed-2, 3 of 3"]
    assert journal.stat().st_mtime_ns == before
    assert watch.steps == [5, 6, 1, 2, 3, 4, 5, 6]
    assert (continued.figures, continued.best) == (whole[1].figures, whole[1].best)
    with refuses(ConfigError, "out: ", "--out", "--overwrite") as refused:
        finetune_repeatedly(Classify, resumed)
    assert "--resume" not in str(refused.value)


def test_a_stop_in_the_last_step_of_a_run_ends_the_series(settings, whole):
    series = replace(settings, seeds=3)
    with refuses(Interrupted, "runs/seed-0: ", "resume"):
        finetune_repeatedly(Classify, series, [StopAt(6)])
    assert not (settings.out / "runs" / "seed-1").exists()
    repeats = finetune_repeatedly(Classify, replace(series, resume=True))
    assert repeats.figures == whole[1].figures


def test_a_series_goes_on_from_any_moment_at_which_it_was_killed(settings):
    series = replace(settings, seeds=2, steps=2)
    whole = finetune_repeatedly(Classify, series)
    before, path = contents(settings.out), settings.out / "run.json"
    facts = json.loads(path.read_text())
    del facts["summary"]
    # At its very end.
    path.write_text(json.dumps(facts))
    (settings.out / "repeats.json").unlink()
    assert finetune_repeatedly(Classify, replace(series, resume=True)) == whole
    assert contents(settings.out) == before
    # While a run began.
    path.write_text(json.dumps(facts))
    killed = settings.out / "runs" / "seed-1"
    shutil.rmtree(killed)
    killed.mkdir()
    (killed / ".run.json.999999.tmp").write_text("{")
    assert finetune_repeatedly(Classify, replace(series, resume=True)).figures == whole.figures


def test_nothing_is_touched_before_all_is_checked(settings, tmp_path):
    series = replace(settings, folds=2, eval=NOT_GIVEN, steps=1)
    finetune_repeatedly(Classify, series)
    before = contents(settings.out)
    for change in ({"train": tmp_path / "tpyo.csv"}, {"model": tmp_path / "none"},
                   {"max_length": 1000}, {"freeze_layers": 99}):  # fmt: skip
        with pytest.raises((InputError, CheckpointError, ConfigError)):
            finetune_repeatedly(Classify, replace(series, **change, overwrite=True))
    assert contents(settings.out) == before


def test_only_the_runs_of_the_earlier_series_are_removed(settings):
    series = replace(settings, seeds=2, steps=1, overwrite=True)
    runs = settings.out / "runs"
    mine = save_tiny(runs / "mine") / "model.safetensors"
    foreign = runs / "seed-7" / "notes.txt"
    foreign.parent.mkdir()
    foreign.write_text("mine")
    finetune_repeatedly(Classify, series)
    assert {path.name for path in runs.iterdir()} == {"mine", "seed-0", "seed-1", "seed-7"}
    with refuses(ConfigError, "runs/seed-7: ", "out/run.json", "--out"):
        finetune_repeatedly(Classify, replace(series, seed=6))
    assert (runs / "seed-0").exists()
    finetune_repeatedly(Classify, replace(series, seed=2))
    assert {path.name for path in runs.iterdir()} == {"mine", "seed-2", "seed-3", "seed-7"}
    assert mine.exists() and foreign.read_text() == "mine"


def fold(task, examples, count, seed=3):
    return split(TaskDataset(task, examples, []), count, seed=seed)


def test_folds_hold_out_everything_once_and_equal_texts_together():
    labels, once = Classify(("neg", "pos", "rare")), reviews(53)
    examples = [replace(e, label="rare" if e.row < 9 else e.label) for e in once]
    datasets = fold(labels, examples, 5)
    held_out = [example for dataset in datasets for example in dataset.held_out]
    assert sorted(held_out, key=lambda e: e.row) == examples
    totals = Counter(example.label for example in examples)
    for dataset in datasets:
        assert sorted(e.row for e in (*dataset.train, *dataset.held_out)) == [e.row for e in once]
        counts = Counter(example.label for example in dataset.held_out)
        assert all(abs(counts[label] - totals[label] / 5) < 1 for label in totals)
    repeated = [replace(e, row=n) for n, e in enumerate([*once[:31], *once[:17], *once[:5]])]
    datasets = fold(labels, repeated, 4)
    assert [dataset.num_overlap for dataset in datasets] == [0] * 4
    sizes = [len(dataset.held_out) for dataset in datasets]
    assert sum(sizes) == 53 and max(sizes) - min(sizes) <= 3
    with refuses(ConfigError, "--folds: found 32", "2 to 31"):
        fold(labels, repeated, 32)
    questions = [Question(str(n), f"who {n} ?", f"passage {n % 7}", row=n) for n in range(23)]
    for dataset in fold(Answer(), questions, 3):
        assert not {q.context for q in dataset.train} & {q.context for q in dataset.held_out}
        assert 6 <= len(dataset.held_out) <= 10


@pytest.mark.parametrize("changes, place", [
    ({"seeds": 2, "folds": 2}, "--seeds and --folds"), ({"seeds": 1}, "--seeds: found 1"),
    ({"folds": 2}, "--eval and --folds"), ({"eval": NOT_GIVEN}, "--eval: "),
    ({"folds": 2, "eval": NOT_GIVEN, "eval_limit": 5}, "--eval-limit and --folds"),
])  # fmt: skip
def test_what_excludes_each_other(settings, changes, place):
    with refuses(ConfigError, place):
        finetune(Classify, replace(settings, **changes))


def labelled(path, *labels):
    rows = [f"good {row},{label}\n" for row, label in enumerate(labels)]
    path.write_text("text,label\n" + "".join(rows))


def test_labels_with_fewer_examples_than_folds_are_told_before_training(settings):
    said = []
    series = replace(settings, folds=2, eval=NOT_GIVEN, steps=1)
    labelled(settings.train, *"pqn", *"pq" * 3)
    finetune_repeatedly(Classify, series, say=said.append)
    assert said[:2] == [
        "1 label has fewer different examples than the 2 folds, so some cannot learn or score it: "
        "'n' has 1",
        "fold-1, 1 of 2",
    ]


@pytest.mark.parametrize(("task", "texts", "note"), [
    (Classify, ["p", "q", "p", "q", "p"], None),
    (Classify, [*"ppppppqqq", "n", "m", "m"], "2 labels have fewer different examples than the 3 "
     "folds, so some cannot learn or score all of them: 'm' has 2, 'n' has 1"),
    (MultiLabel, ["p,q", "p", "q", "", "p,q", "n"],
     "1 label has fewer different examples than the 3 folds, so some cannot learn or score it: "
     "'n' has 1"),
    (Regress, list("123456"), None),
])  # fmt: skip
def test_rare_labels_are_named(task, texts, note):
    examples = [Example(f"text {row}", None, text, row) for row, text in enumerate(texts)]
    num_folds = 2 if len(texts) == 5 else 3
    assert note_rare_labels(TaskDataset(task(), examples, []), num_folds) == note


def test_rare_types_of_entities_and_long_lists_are_named():
    labels = ["B-A O", "B-A I-A", "B-B I-B", "O O", "B-A O", "O B-B"]
    sentences = [
        TaggedSentence((str(row), "ran"), tuple(text.split()), row, scheme="IOB2")
        for row, text in enumerate(labels)
    ]
    note = note_rare_labels(TaskDataset(Tag(), sentences, []), 3)
    assert note.endswith(": 'B' has 2")
    many = [Example(f"text {row}", None, f"label{row % 50}", row) for row in range(100)]
    note = note_rare_labels(TaskDataset(Classify(), many, []), 3)
    assert note.startswith("50 labels have") and note.endswith(", and 42 more have too few")
    same = [Example("the same", None, "p", row) for row in range(5)]  # all are in one fold
    assert "'p' has 1" in note_rare_labels(TaskDataset(Classify(), same, []), 2)


@pytest.mark.parametrize(("task", "labels", "part"), [
    (Classify, "pppn", "the only label is 'p'"), (Regress, "1112", "the number is 1"),
])  # fmt: skip
def test_folds_that_leave_nothing_to_learn_are_refused(settings, tmp_path, task, labels, part):
    series = task.settings(
        model=settings.model, train=settings.train, out=settings.out, folds=2, device="cpu"
    )
    labelled(settings.train, *labels)
    with refuses(ExamplesError, "--folds 2", "a.csv: ", part):
        finetune_repeatedly(task, series)
    assert not settings.out.exists()
