"""`predict --out` of tables: all columns of the user's, and the prediction beside them."""

import csv
import io
import json
import select
import subprocess
import sys

import openpyxl
import pytest
from pyarrow import parquet
from tiny_models import reviews, save_tiny
from tiny_runs import FP32

from bertsmith.estimators.texts import TextClassifier

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


def test_a_delimiter_stays(bertsmith, place, tmp_path):
    (tmp_path / "a.csv").write_text("id;text\n1;good, good\n2;dull\n")
    words = ("--file", tmp_path / "a.csv", "--out", tmp_path / "o.csv", "--delimiter", ";", *FP32)
    bertsmith("predict", place / "classifier", *words)
    assert (tmp_path / "o.csv").read_text().startswith("id;text;label;probability\n1;good, good;")


def test_nothing_is_written_where_a_row_is_wrong(refused, place, tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,good\n2\n")
    out = tmp_path / "o.csv"
    out.write_text("as it was")
    told = refused(
        "predict", place / "classifier", "--file", tmp_path / "a.csv", "--out", out, *FP32
    )
    assert "a.csv:3" in told and out.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "o.csv"]


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
