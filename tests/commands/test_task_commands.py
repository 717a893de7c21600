"""finetune classify, evaluate, predict and fill as they are typed."""

import json
import os

import pytest
from tiny_models import reviews, save_tiny, write_reviews

from bertsmith.cli import main
from bertsmith.data.examples import Example
from bertsmith.tasks.task import jsonl
from bertsmith.tasks.text_classification import ClassPrediction


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models and tables for every command."""
    folder = tmp_path_factory.mktemp("commands")
    save_tiny(folder / "pretrained", "masked_lm")
    save_tiny(folder / "classifier", "classify", labels=("neg", "pos"))
    write_reviews(folder / "data.csv", 9)
    return folder


@pytest.fixture
def bertsmith(capsys):
    """Run a command line; gives what it printed."""

    def run(*args):
        main([str(arg) for arg in args])
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys):
    """Run a command line that must fail; gives the one line of its message."""

    def run(*args):
        with pytest.raises(SystemExit) as caught:
            main([str(arg) for arg in args])
        assert caught.value.code == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        return line

    return run


FP32 = ("--device", "cpu", "--precision", "fp32")


def test_finetune_then_evaluate(bertsmith, place, tmp_path):
    printed = bertsmith(
        "finetune", "classify", "--model", place / "pretrained", "--train", place / "data.csv",
        "--eval", place / "data.csv", "--out", tmp_path / "out", "--steps", 2,
        "--label-column", "label", "--json", *FP32,
    )  # fmt: skip
    trained = json.loads(printed)
    assert trained["labels"] == ["neg", "pos"]
    evaluated = json.loads(
        bertsmith("evaluate", tmp_path / "out", "--data", place / "data.csv", "--json", *FP32)
    )
    assert 0 <= evaluated.pop("expected_calibration_error") <= 1
    assert evaluated == {**trained["evaluation"], "unknown_rate": 0.0}
    text = bertsmith("evaluate", tmp_path / "out", "--data", place / "data.csv", *FP32)
    assert f"accuracy  {evaluated['accuracy']:.4f}" in text


def test_finetune_as_text(bertsmith, place, tmp_path):
    printed = bertsmith(
        "finetune", "classify", "--model", place / "pretrained", "--train", place / "data.csv",
        "--eval", place / "data.csv", "--out", tmp_path / "out", "--steps", 1, *FP32,
    )  # fmt: skip
    assert printed.startswith("learnt 2 labels from 9 texts in 1 steps")


def test_predict_texts(bertsmith, place):
    lines = bertsmith("predict", place / "classifier", "a good\tfilm", "dull", *FP32).splitlines()
    assert [line.split("\t")[2] for line in lines] == ["a good film", "dull"]
    report = json.loads(
        bertsmith("predict", place / "classifier", "a good\tfilm", "dull", "--json", *FP32)
    )
    for line, prediction in zip(lines, report["predictions"], strict=True):
        label, probability, _ = line.split("\t")
        assert label == prediction["label"]
        assert probability == f"{prediction['probabilities'][label]:.4f}"


def test_bytes_that_are_no_text_on_the_command_line(bertsmith, place, tmp_path):
    word = os.fsdecode(b"a \xff film")
    assert "\ufffd film" in bertsmith("predict", place / "classifier", word, "--json", *FP32)
    filled = bertsmith("fill", place / "pretrained", f"{word} [MASK]", "--json", *FP32)
    assert json.loads(filled)["text"] == "a \ufffd film [MASK]"


def test_a_file_is_not_written_over_while_it_is_read(refused, place, tmp_path):
    write_reviews(tmp_path / "data.jsonl", 3)
    before = (tmp_path / "data.jsonl").read_bytes()
    for args in (
        ("predict", place / "classifier", "--file", tmp_path / "data.jsonl", "--out"),
        ("evaluate", place / "classifier", "--data", tmp_path / "data.jsonl", "--errors"),
        ("evaluate", place / "classifier", "--data", tmp_path / "data.jsonl", "--report"),
        ("embed", place / "classifier", tmp_path / "data.jsonl", "--out"),
    ):
        assert "which is what is read" in refused(*args, tmp_path / "data.jsonl", *FP32)
    assert (tmp_path / "data.jsonl").read_bytes() == before


def test_a_page_that_cannot_be_written_is_refused_before_scoring(capsys, place, tmp_path):
    (tmp_path / "file").write_text("")
    report = tmp_path / "file" / "report.html"
    with pytest.raises(SystemExit) as caught:
        main(["evaluate", str(place / "classifier"), "--data", str(place / "data.csv"),
              "--report", str(report), *FP32])  # fmt: skip
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert captured.out == ""
    assert f"{tmp_path / 'file'}: cannot be written" in captured.err


def test_standard_input_is_scored_in_less_exact_ways_too(bertsmith, tmp_path, monkeypatch):
    model = save_tiny(tmp_path / "model", "answer")
    args = ("evaluate", model, "--json", "--device", "cpu", "--precision", "bf16", "--data")
    answer = {"text": "good", "answer_start": 2}
    row = {"id": "a", "question": "what ?", "context": "a good film", "answers": [answer]}
    path = tmp_path / "data.jsonl"
    path.write_text(f"{json.dumps(row)}\n")
    expected = bertsmith(*args, path)
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert bertsmith(*args, "-") == expected


def test_predict_a_file(bertsmith, place, tmp_path):
    out = tmp_path / "out.jsonl"
    printed = bertsmith(
        "predict", place / "classifier", "--file", place / "data.csv", "--out", out, *FP32
    )
    assert "9 texts" in printed
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == [example.text for example in reviews(9)]
    assert [row["row"] for row in rows] == list(range(2, 11))
    assert set(rows[0]["probabilities"]) == {"neg", "pos"}


def test_a_name_that_promises_another_format_is_refused(refused, place, tmp_path):
    for name in ("out.csv", "out.json", "out.conll", "out"):
        message = refused("predict", place / "classifier", "good", "--out", tmp_path / name, *FP32)
        assert f"{name}'; allowed for this model are names that end in .jsonl." in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_less_exact_ways_say_how_many_labels_they_change(bertsmith, place, precision):
    less = ("--device", "cpu", "--precision", precision, "--json")
    data = place / "data.csv"
    report = json.loads(bertsmith("predict", place / "classifier", "--file", data, *less))
    exact = json.loads(bertsmith("predict", place / "classifier", "--file", data, "--json", *FP32))
    changed = sum(
        mine["label"] != theirs["label"]
        for mine, theirs in zip(report["predictions"], exact["predictions"], strict=True)
    )
    assert report["labels_beside_fp32"] == {"num_changed": changed, "num_texts": 9}
    report = json.loads(bertsmith("evaluate", place / "classifier", "--data", data, *less))
    assert report["labels_beside_fp32"] == {"num_changed": changed, "num_texts": 9}
    assert "labels_beside_fp32" not in exact


def test_a_precision_that_gains_nothing_is_told(place, tmp_path, remember, capsys):
    remember(bf16_gflops=1.0, int8_gflops=1.0)
    model, data, vectors = place / "classifier", place / "data.csv", tmp_path / "vectors.npy"
    for precision, args in (
        ("bf16", ("fill", place / "pretrained", "a [MASK]")),
        ("bf16", ("predict", model, "good")),
        ("int8", ("predict", model, "good")),
        ("int8", ("evaluate", model, "--data", data)),
        ("int8", ("embed", model, data, "--out", vectors)),
    ):
        main([*map(str, args), "--device", "cpu", "--precision", precision])
        note = capsys.readouterr().err.splitlines()[0]
        assert note.startswith(f"{precision}: ")
        assert note.endswith("--precision fp32 is as fast here, and more exact.")
    main(["predict", str(model), "good", *FP32])
    assert capsys.readouterr().err == ""


def test_texts_with_half_an_emoji_are_written(bertsmith, place, tmp_path):
    path, out, misses = (tmp_path / name for name in ("a.jsonl", "out.jsonl", "misses.jsonl"))
    labels = ("pos", "neg")  # one of them is wrong
    lines = [rf'{{"text": "good \ud83d film", "label": "{label}"}}' for label in labels]
    path.write_text("\n".join(lines))
    bertsmith("predict", place / "classifier", "--file", path, "--out", out, *FP32)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == ["good \ufffd film"] * 2
    bertsmith("evaluate", place / "classifier", "--data", path, "--errors", misses, *FP32)
    (miss,) = map(json.loads, misses.read_text().splitlines())
    assert miss["text"] == "good \ufffd film"


def test_predict_standard_input(bertsmith, place, tmp_path, monkeypatch):
    (tmp_path / "input").write_bytes("good film\r\n«dull»\n".encode())
    with (tmp_path / "input").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        lines = bertsmith("predict", place / "classifier", "-", *FP32).splitlines()
    assert [line.split("\t")[2] for line in lines] == ["good film", "«dull»"]


def test_fill(bertsmith, place):
    printed = bertsmith("fill", place / "pretrained", "a [MASK] and [MASK]", "--top", 3, *FP32)
    assert [line[:8] for line in printed.splitlines()] == ["[MASK] 1", "[MASK] 2"]
    assert printed.splitlines()[0].count("%") == 3
    report = json.loads(
        bertsmith("fill", place / "pretrained", "a [MASK]", "--top", 2, "--json", *FP32)
    )
    assert len(report["masks"]) == 1
    assert set(report["masks"][0][0]) == {"token", "probability"}


@pytest.mark.parametrize(
    "args, parts",
    [
        (("predict", "classifier"), ["Give texts, or --file F"]),
        (("predict", "classifier", "a", "--file", "data.csv"), ["exactly one of them"]),
        (("predict", "classifier", "good", " "), ["text 2 is empty"]),
        (("predict", "pretrained", "good"), ["no classification head", "finetune classify"]),
        (("evaluate", "pretrained", "--data", "data.csv"), ["no classification head"]),
        (("evaluate", "classifier", "--data", "none.csv"), ["none.csv: no such file"]),
        (("evaluate", "nowhere", "--data", "data.csv"), ["nowhere"]),
        (("fill", "pretrained", "no mask"), ["no [MASK]"]),
        (("fill", "classifier", "a [MASK]"), ["no masked-LM head"]),
    ],
)
def test_refusals(refused, place, monkeypatch, args, parts):
    monkeypatch.chdir(place)
    message = refused(*args)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("command", ["finetune classify", "evaluate", "predict", "fill", "embed"])
def test_an_unknown_precision_is_refused_before_anything_is_read(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--precision", "fp16"])
    assert caught.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "invalid choice 'fp16' for argument '--precision'" in message
    assert "int8" in message or command in ("finetune classify", "fill")


def test_no_nan_is_written_as_json(tmp_path):
    damaged = ClassPrediction("pos", {"neg": 0.0, "pos": float("nan")}, False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(jsonl([(Example("a"), damaged)] * 2))


def test_predictions_of_an_earlier_run_survive_a_bad_file(refused, place, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("earlier")
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    message = refused("predict", place / "classifier", "--file", tmp_path / "bad.txt", "--out", out)
    assert "byte 5 is 0xff" in message
    assert out.read_text() == "earlier"
    assert {path.name for path in tmp_path.iterdir()} == {"out.jsonl", "bad.txt"}


@pytest.fixture(scope="module")
def names(place):
    """A tagger, and labelled words of its kind."""
    save_tiny(place / "tagger", "tag", labels=("B-PER", "I-PER", "O"))
    (place / "names.conll").write_text("good I-PER\nfilm O\n\na O\nlovely I-PER\nfilm O\n")
    return place


def test_finetune_tag_then_evaluate(bertsmith, names, tmp_path):
    printed = bertsmith(
        "finetune", "tag", "--model", names / "pretrained", "--train", names / "names.conll",
        "--eval", names / "names.conll", "--out", tmp_path / "out", "--steps", 2, "--json", *FP32,
    )  # fmt: skip
    trained = json.loads(printed)
    assert (trained["task"], trained["labels"]) == ("tag", ["B-PER", "O"])
    command = ("evaluate", tmp_path / "out", "--data", names / "names.conll")
    evaluated = json.loads(bertsmith(*command, "--json", *FP32))
    assert 0 <= evaluated.pop("expected_calibration_error") <= 1
    assert evaluated == {**trained["evaluation"], "unknown_rate": 0.0}
    assert "type  precision" in bertsmith(*command, "--strict", *FP32)


def test_predict_tags(bertsmith, names, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    predict = ("predict", names / "tagger", *FP32)
    (line,) = bertsmith(*predict, "a good film.").splitlines()
    assert line.replace("[", "").replace(" PER]", "") == "a good film."
    report = json.loads(bertsmith(*predict, "--json", "a good film."))
    assert report["predictions"][0]["words"] == ["a", "good", "film", "."]
    out = tmp_path / "out.conll"
    assert bertsmith(*predict, "--file", names / "names.conll", "--out", out).startswith("2 texts")
    assert [row.split("\t")[0] for row in out.read_text().splitlines()] == [
        *("good", "film", "", "a", "lovely", "film", ""),
    ]
    (line,) = bertsmith(*predict, "--split", "spaces", "a good film.").splitlines()
    assert json.loads(bertsmith(*predict, "--split", "spaces", "--json", "a film."))["predictions"][
        0
    ]["words"] == ["a", "film."]


def test_the_page_and_the_misses_of_a_tagger(bertsmith, names, tmp_path):
    page, misses = tmp_path / "page.html", tmp_path / "misses.jsonl"
    printed = bertsmith(
        "evaluate", names / "tagger", "--data", names / "names.conll", "--report", page,
        "--errors", misses, "--json", *FP32,
    )  # fmt: skip
    report = json.loads(printed)
    assert sum(map(sum, report["confusion"])) == report["num_words"] == 5
    assert "the columns are what its words were taken for" in page.read_text()
    for line in misses.read_text().splitlines():
        miss = json.loads(line)
        assert miss["gold"] != miss["predicted"]
        assert miss["score"] < 1


def test_tag_columns_that_are_not_there(refused, names):
    file = names / "names.conll"
    message = refused("evaluate", names / "tagger", "--data", file, "--label-column", "3", *FP32)
    assert "no column '3' for the label. The row has 2" in message


def test_a_recipe_may_leave_files_to_the_line(bertsmith, place, tmp_path):
    recipe = tmp_path / "short.toml"
    recipe.write_text("steps = 1\nbatch_size = 4\n")
    printed = bertsmith(
        "finetune", "classify", recipe, "--model", place / "pretrained", "--train",
        place / "data.csv", "--eval", place / "data.csv", "--out", tmp_path / "out", *FP32,
    )  # fmt: skip
    assert printed.startswith("learnt 2 labels from 9 texts in 1 steps")
