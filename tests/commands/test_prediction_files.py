"""`predict --out` of tables: all columns of the user's, and the prediction beside them."""

import csv
import gc
import io
import json
import select
import subprocess
import sys

import openpyxl
import pytest
from pyarrow import parquet
from refusals import refuses
from tiny_models import reviews, save_tiny
from tiny_runs import FP32

from bertsmith.errors import ConfigError
from bertsmith.estimators.texts import TextClassifier
from bertsmith.system import progress
from bertsmith.tasks import predictor

TEXTS = [example.text for example in reviews(7)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models of several tasks, and a table with columns of its own."""
    folder = tmp_path_factory.mktemp("tables")
    save_tiny(folder / "pretrained", "masked_lm")
    save_tiny(folder / "classifier", "classify", labels=("neg", "pos"))
    save_tiny(folder / "regressor", "regress", labels=("value",))
    save_tiny(folder / "labeller", "multi_label", labels=("a", "b", "c"))
    save_tiny(folder / "chooser", "choose")
    save_tiny(folder / "answerer", "answer")
    save_tiny(folder / "tagger", "tag", labels=("B-PER", "I-PER", "O"))
    with (folder / "data.csv").open("w", newline="") as file:
        rows = [[number, text, "neg", 'x, "y"'] for number, text in enumerate(TEXTS)]
        csv.writer(file).writerows([["id", "review", "label", "note"], *rows])
    return folder


def table_of(path):
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
        return [list(rows[0]), *(list(row.values()) for row in rows)]
    if path.suffix == ".xlsx":
        return [list(row) for row in openpyxl.load_workbook(path).active.values]
    if path.suffix == ".tsv":
        return [line.split("\t") for line in path.read_text().splitlines()]
    return list(csv.reader(io.StringIO(path.read_text(), newline="")))


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.xlsx"])
def test_a_table_keeps_its_columns(bertsmith, place, tmp_path, name):
    out, data = tmp_path / name, place / "data.csv"
    columns = ("--text-column", "review")
    bertsmith("predict", place / "classifier", "--file", data, *columns, "--out", out, *FP32)
    head, *rows = table_of(out)
    assert head == ["id", "review", "label", "note", "predicted_label", "predicted_probability"]
    assert [row[:4] for row in rows] == [[str(i), t, "neg", 'x, "y"'] for i, t in enumerate(TEXTS)]
    found = json.loads(bertsmith("predict", place / "classifier", *TEXTS, *FP32, "--json"))
    for row, prediction in zip(rows, found["predictions"], strict=True):
        assert row[4] == prediction["label"]
        assert float(row[5]) == pytest.approx(prediction["probability"], abs=1e-5)
    # Their own label is the right one, and what is predicted is scored.
    share = sum(row[4] == "neg" for row in rows) / len(rows)
    scored = json.loads(bertsmith("score", data, out, "--task", "classify", "--json"))
    assert scored["accuracy"] == pytest.approx(share)


@pytest.mark.same_on_all_computers
def test_objects_keep_their_columns_too(bertsmith, place, tmp_path):
    rows = [{"id": 1, "text": "good", "line": 5}, {"id": 2, "text": "dull", "more": ["a"]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("o.jsonl", "o.csv"):
        words = ("--file", tmp_path / "a.jsonl", "--out", tmp_path / name, *FP32)
        bertsmith("predict", place / "classifier", *words)
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [
        {key: row[key] for key in given} for given, row in zip(rows, found, strict=True)
    ] == rows
    assert [(row["file_line"], "line" in row) for row in found] == [(1, True), (2, False)]
    head, first, second = table_of(tmp_path / "o.csv")
    assert head == ["id", "text", "line", "more", "label", "probability"]
    assert (first[:4], second[:4]) == (["1", "good", "5", ""], ["2", "dull", "", '["a"]'])


def test_predictions_may_be_predicted_again(bertsmith, place, tmp_path):
    """The file then has both names of the line, and a third is written and read."""
    rows = [{"text": "good", "line": 7}, {}, {"text": "dull", "line": 8}]
    lines = [json.dumps(row) if row else "" for row in rows]
    (tmp_path / "0.jsonl").write_text("\n".join(lines) + "\n")
    for number in (0, 1):
        words = ("--file", tmp_path / f"{number}.jsonl", "--out", tmp_path / f"{number + 1}.jsonl")
        bertsmith("predict", place / "classifier", *words, *FP32)
    found = [json.loads(line) for line in (tmp_path / "2.jsonl").read_text().splitlines()]
    keys = ("line", "file_line", "file_line_2")
    assert [tuple(row[key] for key in keys) for row in found] == [(7, 1, 1), (8, 3, 2)]
    gold = tmp_path / "1.jsonl"
    scored = json.loads(
        bertsmith("score", gold, tmp_path / "2.jsonl", "--task", "classify", "--json")
    )
    assert scored["accuracy"] == 1.0


@pytest.mark.same_on_all_computers
def test_a_row_may_hold_an_infinite_number(bertsmith, place, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "good", "x": Infinity}\n{"text": "dull"}\n')
    out = tmp_path / "o.jsonl"
    bertsmith("predict", place / "classifier", "--file", tmp_path / "a.jsonl", "--out", out, *FP32)
    first, second = map(json.loads, out.read_text().splitlines())
    assert first["x"] == float("inf") and first["label"] in ("neg", "pos")
    assert "x" not in second


@pytest.mark.same_on_all_computers
def test_the_line_of_an_example_is_that_of_messages(bertsmith, place, tmp_path):
    (tmp_path / "a.csv").write_text("text\ngood\ndull\n")
    words = ("--file", tmp_path / "a.csv", "--out", tmp_path / "o.jsonl", *FP32)
    bertsmith("predict", place / "classifier", *words)
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["line"] for row in found] == [2, 3]


def test_tables_of_other_tasks(bertsmith, refused, place, tmp_path):
    def predicted(model, file, *more):
        out = tmp_path / "out.csv"
        bertsmith("predict", place / model, "--file", file, "--out", out, *FP32, *more)
        return table_of(out)

    review = ("--text-column", "review")
    (tmp_path / "texts.txt").write_text("good\ndull\n")
    assert predicted("regressor", tmp_path / "texts.txt")[0] == ["text", "value"]
    head, *rows = predicted("labeller", place / "data.csv", *review)
    assert head[4:] == ["predicted_labels", "predicted_probabilities"]
    assert all(row[4].count(",") == row[5].count(",") for row in rows)
    (tmp_path / "c.tsv").write_text("prompt\tchoice1\tchoice2\nthe film\tgood\tbad\n")
    (head, row) = predicted("chooser", tmp_path / "c.tsv")
    assert head == ["prompt", "choice1", "choice2", "label", "choice", "probability"]
    assert row[4] == row[1 + int(row[3])]
    question = {"id": "q", "question": "good film", "context": "a good film"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    (head, row) = predicted("answerer", tmp_path / "q.jsonl")
    assert (head, row[:2]) == (["id", "question", "answer", "probability"], ["q", "good film"])
    told = refused("predict", place / "tagger", "good", "--out", tmp_path / "o.csv", *FP32)
    assert ".jsonl, .conll or .conllu" in told and "words" in told


@pytest.mark.same_on_all_computers
def test_a_delimiter_stays(bertsmith, place, tmp_path):
    (tmp_path / "a.csv").write_text("id;text\n1;good, good\n2;dull\n")
    words = ("--file", tmp_path / "a.csv", "--out", tmp_path / "o.csv", "--delimiter", ";", *FP32)
    bertsmith("predict", place / "classifier", *words)
    assert (tmp_path / "o.csv").read_text().startswith("id;text;label;probability\n1;good, good;")


@pytest.mark.same_on_all_computers
def test_a_delimiter_is_for_the_files_that_have_one(bertsmith, refused, place, tmp_path):
    rows = [{"text": text, "label": label} for text, label in (("good", "pos"), ("dull", "neg"))]
    objects, table = tmp_path / "a.json", tmp_path / "a.csv"
    objects.write_text(json.dumps(rows * 4))
    table.write_text("text;label\n" + "good;pos\ndull;neg\n" * 4)
    more = ("--delimiter", ";", *FP32)
    train = ("finetune", "classify", "--model", place / "pretrained", "--steps", 1, *more)
    for number, files in enumerate(((objects, table), (table, objects))):
        out = tmp_path / f"out{number}"
        files = ("--train", files[0], "--eval", files[1])
        bertsmith(*train, *files, "--out", out)
    vectors = tmp_path / "vectors.npy"
    for words in (
        (*train, "--train", objects, "--eval", objects, "--out", tmp_path / "no"),
        ("predict", place / "classifier", "--file", objects, *more),
        ("evaluate", place / "classifier", "--data", objects, *more),
        ("embed", place / "classifier", objects, "--out", vectors, *more),
        ("score", objects, objects, *more[:2]),
    ):
        assert f"--delimiter: {objects} is read as json" in refused(*words)
    assert not (tmp_path / "no").exists() and not vectors.exists()
    classifier = TextClassifier(str(out), steps=1, precision="fp32", device="cpu", verbose=0)
    classifier.fit(table, eval=objects, delimiter=";")
    assert len(classifier.predict(rows)) == len(rows)
    assert 0 <= classifier.score(objects) <= 1
    for call in (
        lambda: classifier.fit(rows * 4, eval=objects, delimiter=";"),
        lambda: classifier.predict(rows, delimiter=";"),
        lambda: classifier.score(objects, delimiter=";"),
        lambda: classifier.predictor_.evaluate(objects, delimiter=";"),
    ):
        with refuses(ConfigError, "delimiter", "without separators"):
            call()


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.parquet", "o.xlsx", "o.jsonl"])
def test_nothing_is_written_where_a_row_is_wrong(refused, place, tmp_path, name):
    # Enough rows before it that some are answered; and what a library keeps open is closed, as
    # pytest turns an exception that a destructor ignores into a failure.
    (tmp_path / "a.csv").write_text("id,text\n" + "1,good\n" * 1500 + "2\n")
    out = tmp_path / name
    out.write_text("as it was")
    told = refused(
        "predict", place / "classifier", "--file", tmp_path / "a.csv", "--out", out, *FP32
    )
    gc.collect()
    assert "a.csv:1502" in told and out.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", name]


@pytest.mark.parametrize(("labels", "kind", "texts"), [
    ((0, 1), "int64", ("0", "1")),
    ((0.5, 1.5), "double", ("0.5", "1.5")),
    ((False, True), "bool", ("false", "true")),
    ((5, 10**20), "string", ("5", str(10**20))),  # more than int64 holds
])  # fmt: skip
def test_labels_that_are_no_strings_stay_what_they_are(
    bertsmith, place, tmp_path, labels, kind, texts
):
    classifier = TextClassifier(str(place / "pretrained"), steps=1, precision="fp32", device="cpu")
    classifier.fit(["good", "dull"] * 12, list(labels) * 12, eval=None, show_progress=False)
    classifier.save(tmp_path / "model")
    answers = classifier.predict(TEXTS).tolist()
    for ending in (".parquet", ".csv", ".xlsx"):
        out = tmp_path / f"out{ending}"
        words = ("--file", place / "data.csv", "--text-column", "review", "--out", out)
        bertsmith("predict", tmp_path / "model", *words, *FP32)
        read = [row[4] for row in table_of(out)[1:]]
        is_text = ending == ".csv" or kind == "string"
        read = list(map(str, read)) if kind == "string" else read  # Excel gets 5 as a number
        assert read == ([texts[labels.index(answer)] for answer in answers] if is_text else answers)
    column = parquet.read_schema(tmp_path / "out.parquet").field("predicted_label")
    assert str(column.type) == kind


@pytest.mark.same_on_all_computers
def test_excel_gets_long_numbers_as_texts_of_all_their_digits(bertsmith, place, tmp_path):
    rows = [{"text": "good", "id": number} for number in (7, 10**15 - 1, 10**15, -(10**17) - 1)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--file", tmp_path / "a.jsonl", "--out", tmp_path / "o.xlsx", *FP32)
    bertsmith("predict", place / "classifier", *words)
    ids = [row[1] for row in table_of(tmp_path / "o.xlsx")[1:]]
    assert ids == [7, 10**15 - 1, "1000000000000000", "-100000000000000001"]


def test_several_labels_that_are_numbers_are_written(bertsmith, place, tmp_path):
    labeller = TextClassifier(
        str(place / "pretrained"), multi_label=True, threshold=0.01, steps=1, precision="fp32",
        device="cpu",
    )  # fmt: skip
    labeller.fit(["good", "dull"] * 12, [[0, 10], [2]] * 12, eval=None, show_progress=False)
    labeller.save(tmp_path / "model")
    for ending in (".csv", ".tsv", ".parquet", ".xlsx"):
        out = tmp_path / f"out{ending}"
        words = ("--file", place / "data.csv", "--text-column", "review", "--out", out)
        bertsmith("predict", tmp_path / "model", *words, *FP32)
        assert {row[4] for row in table_of(out)[1:]} == {"0,10,2"}


def test_the_columns_of_training_are_known(bertsmith, place, tmp_path):
    data, out = place / "data.csv", tmp_path / "out"
    (tmp_path / "train.csv").write_text("review;stars\n" + "good;pos\ndull;neg\n" * 4)
    train = ("--train", tmp_path / "train.csv", "--eval", tmp_path / "train.csv", "--steps", 1)
    columns = ("--text-column", "review", "--label-column", "stars", "--delimiter", ";")
    model = ("--model", place / "pretrained", "--out", out)
    bertsmith("finetune", "classify", *model, *train, *columns, *FP32)
    bertsmith("evaluate", out, "--data", tmp_path / "train.csv", *FP32)
    lines = bertsmith("predict", out, "--file", data, *FP32).splitlines()
    assert [line.split("\t")[2] for line in lines] == TEXTS
    frame = {"review": ["good", "dull"], "stars": ["pos", "neg"], "text": ["no", "no"]}
    fit = {"eval": frame, "show_progress": False, "text_column": "review", "label_column": "stars"}
    classifier = TextClassifier(str(place / "pretrained"), steps=1, precision="fp32", device="cpu")
    classifier.fit(frame, **fit)
    definition = classifier.predictor_.definition
    assert definition.trained.names == {"text": ("review",), "label": ("stars",)}


@pytest.mark.same_on_all_computers
def test_a_line_is_answered_before_the_next_is_written(place):
    command = [sys.executable, "-m", "bertsmith", "predict", str(place / "classifier"), "-", *FP32]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*map(str, command)], **pipes) as process:
        for text in (b"good film\n", b"dull\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 300)[0]
            assert process.stdout.readline().split(b"\t")[2] == text
        process.stdin.close()
        assert process.stdout.read() == b"" and process.wait() == 0


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(
    "name, model, options",
    [
        ("predict", "classifier", ["--file"]),
        ("evaluate", "classifier", ["--data"]),
        ("embed", "pretrained", []),
    ],
)
def test_progress_counts_what_is_answered(
    typed, monkeypatch, place, tmp_path, name, model, options
):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    monkeypatch.setattr(predictor, "CHUNK_EXAMPLES", 3)
    columns = ("--text-column", "review")
    out = {"predict": ("--out", tmp_path / "out.csv"), "embed": ("--out", tmp_path / "out.npy")}
    data = place / "data.csv"
    shown = typed(name, place / model, *options, data, *columns, *out.get(name, ()), *FP32).err
    lines = [line.split(" · ")[:2] for line in shown.splitlines() if " · " in line]
    verb = {"predict": "predicting", "evaluate": "evaluating", "embed": "embedding"}[name]
    told = [share for what, share in lines if what == verb]
    steps = range(1, 8) if name == "predict" else (3, 6, 7)
    assert told == [f"{100 * done / 7:.0f} %" for done in steps]
    last_read = max(i for i, (what, _) in enumerate(lines) if what == "data.csv")
    assert last_read < lines.index([verb, told[0]])
