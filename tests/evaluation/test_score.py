"""Files of predictions beside gold files: scores, and what is refused."""

import json
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
import sklearn.metrics
import sklearn.preprocessing
from refusals import refuses

from bertsmith.data.columns import TagColumns
from bertsmith.errors import ConfigError, InputError
from bertsmith.errors.notices import BertsmithWarning, issued_warnings
from bertsmith.evaluation.score import (
    score_answer_files,
    score_choice_files,
    score_class_files,
    score_number_files,
    score_tag_files,
)
from bertsmith.evaluation.settings import AnswerScoring, ClassColumns


@pytest.fixture(autouse=True)
def warnings_anew():
    issued_warnings.clear()


@contextmanager
def warns(*parts):
    """Check that the block brings one warning, with these parts."""
    with pytest.warns(BertsmithWarning) as caught:
        yield
    (warning,) = (str(each.message) for each in caught)
    assert [part for part in parts if part not in warning] == []


MULTI = ClassColumns(multi_label=True)


def squad(path, answers, context="x y z"):
    """A file of questions whose answers are given by id."""
    qas = [
        {"id": id_, "question": "?", "answers": [{"text": x, "answer_start": 0} for x in texts]}
        for id_, texts in answers.items()
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return path


def as_json(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.fixture
def gold(tmp_path):
    return squad(tmp_path / "gold.json", {"a": ["x"], "b": ["y z"], "c": []})


def test_answers_by_the_rules_that_the_data_ask_for(gold, tmp_path):
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y", "z": "?"})
    report = score_answer_files(gold, given).to_json()
    assert report == {
        "exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "total": 3, "HasAns_exact": 50.0, "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "HasAns_total": 2, "NoAns_exact": 0.0, "NoAns_f1": 0.0, "NoAns_total": 1,
        "threshold": None, "num_unanswered": None, "num_missing": 1, "num_unknown": 1,
        "num_truncated": 0, "num_windowed": 0, "num_skipped": 0, "num_moved": 1, "num_lost": 0,
        "num_empty": 0, "num_too_long": 0, "num_inside_token": 0,
        "protocol": "2.0", "language": "en",
    }  # fmt: skip
    plain = squad(tmp_path / "plain.json", {"a": ["x"], "b": ["y z"]})
    report = score_answer_files(plain, given)
    assert (report.protocol, report.has_answer, report.num_missing) == ("1.1", None, 0)
    text = str(report)
    assert "50.0000  83.3333          2" in text
    assert "1 prediction is for a question that the gold file lacks" in text


def test_no_answer_probabilities_take_answers_back_and_give_the_best_thresholds(gold, tmp_path):
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y", "c": "z"})
    probs = as_json(tmp_path / "n.json", {"a": 0.1, "b": 0.5, "c": 2})
    report = score_answer_files(gold, given, AnswerScoring(probs)).to_json()
    assert report["NoAns_exact"] == 100.0  # 2 is above 1
    assert report["num_unanswered"] == 1
    assert (report["best_exact"], report["best_exact_thresh"]) == (pytest.approx(200 / 3), 0.1)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(800 / 9), 0.5)
    patient = score_answer_files(gold, given, AnswerScoring(probs, 2.0))
    assert patient.no_answer.exact_match == 0
    assert "best F1 88.8889" in str(patient)
    assert "0 of 3 questions were given no answer (threshold 2)" in str(patient)


def test_predictions_in_lines(gold, tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [
        {"id": "a", "answer": "x", "no_answer_score": -3.0},
        {"id": "b", "answer": "y z", "no_answer_score": -2},
        {"id": "c", "answer": "", "no_answer_score": 4.5},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    report = score_answer_files(gold, path, AnswerScoring(path))
    assert report.overall.exact_match == report.best_f1.score == 100
    assert report.best_f1.threshold == -2
    # Its numbers are logits, by which the answers go already.
    rows[0]["no_answer_score"] = 3.0
    path.write_text("\n".join(map(json.dumps, rows)))
    assert score_answer_files(gold, path, AnswerScoring(path)).overall.exact_match == 100
    strict = score_answer_files(gold, path, AnswerScoring(path, 1))
    assert strict.overall.exact_match == pytest.approx(200 / 3)


GOLD = ["b", "a", "b", "c", "a"]
PREDICTED = ["b", "b", "b", "d", "a"]


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "gold.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{x}\n" for i, x in enumerate(GOLD)))
    return path


SETS = ["a,b", "", "c", "b, a", "d"], ["b", "", "c,a", "a,b", "e"]


def test_several_labels(tmp_path):
    gold, path = tmp_path / "gold.csv", tmp_path / "p.csv"
    gold.write_text("text,label\n" + "".join(f'some,"{x}"\n' for x in SETS[0]))
    path.write_text("id,prediction\n" + "".join(f'1,"{x}"\n' for x in SETS[1]))
    true, given = ([[x.strip() for x in row.split(",") if x] for row in rows] for rows in SETS)
    report = score_class_files(gold, path, MULTI)
    flags = sklearn.preprocessing.MultiLabelBinarizer().fit([*true, *given])
    arrays = flags.transform(true), flags.transform(given)
    for average, found in (("micro", report.micro_f1), ("macro", report.macro_f1)):
        wanted = sklearn.metrics.f1_score(*arrays, average=average, zero_division=0)
        assert found == wanted
    assert report.subset_accuracy == sklearn.metrics.accuracy_score(*arrays)
    assert [row.label for row in report.classes] == ["a", "b", "c", "d", "e"]


def test_numbers(labelled, tmp_path):
    true, predicted = [1.0, 2.5, -3.0, 0.5], [1.5, 2.0, -1.0, 0.0]
    labelled.write_text("text,label\n" + "".join(f"a,{x}\n" for x in true))
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps({"value": x}) for x in predicted))
    report = score_number_files(labelled, tmp_path / "p.jsonl")
    assert report.pearson == pytest.approx(scipy.stats.pearsonr(true, predicted).statistic)
    assert report.spearman == pytest.approx(scipy.stats.spearmanr(true, predicted).statistic)
    (tmp_path / "p.txt").write_text("1\n2\nthree\n4\n")
    with refuses(InputError, "p.txt: prediction 3:", "'three'"):
        score_number_files(labelled, tmp_path / "p.txt")
    (tmp_path / "p.txt").write_text("score\n1\n2\n3\n4\n")
    with refuses(InputError, "p.txt: prediction 1:", "'score'", "If it is a header"):
        score_number_files(labelled, tmp_path / "p.txt")


WORDS = "Ada of Rome met Bo ."
IOB1 = "I-PER O I-LOC O I-PER O"


def conll(path, *sentences):
    """CoNLL columns of texts with their labels."""
    blocks = (
        "".join(f"{w} x {x}\n" for w, x in zip(t.split(), labels.split(), strict=True))
        for t, labels in sentences
    )
    path.write_text("\n".join(blocks))
    return path


def test_labels_of_words_in_another_scheme(tmp_path):
    gold = conll(tmp_path / "gold.conll", (WORDS, IOB1), ("no name", "O O"))
    iob2 = "B-PER I-PER B-LOC O B-PER O"
    given = conll(tmp_path / "p.conll", (WORDS, iob2), ("no name", "O B-LOC"))
    report = score_tag_files(gold, given)
    assert (report.precision, report.recall) == (2 / 4, 2 / 3)
    assert report.accuracy == 6 / 8
    assert [(row.label, row.num_correct) for row in report.types] == [("LOC", 1), ("PER", 1)]
    none = conll(tmp_path / "o.conll", (WORDS, "O O O O O O"), ("no name", "O O"))
    assert score_tag_files(gold, none).recall == 0
    assert "no entity is among the right labels" in str(score_tag_files(none, none))


def test_illegal_predictions_are_of_the_gold_scheme(tmp_path):
    gold = conll(tmp_path / "gold.conll", (WORDS, "B-PER O B-LOC O B-PER O"))
    given = conll(tmp_path / "p.conll", (WORDS, "I-PER O I-LOC O I-PER O"))
    report = score_tag_files(gold, given)
    assert (report.scheme, report.num_illegal, report.f1, report.accuracy) == ("IOB2", 1, 1, 0.5)
    assert score_tag_files(gold, given, TagColumns(strict=True)).f1 == 0
    both = score_tag_files(gold, given, TagColumns(scheme="IOB1"))
    assert (both.scheme, both.num_illegal, both.num_illegal_gold) == ("IOB1", 0, 1)


LINES = [json.dumps({"line": i, "label": x}) for i, x in enumerate(PREDICTED, start=2)]
BESIDE = [json.dumps({"label": right, "pred": x}) for right, x in zip(GOLD, PREDICTED, strict=True)]


@pytest.mark.parametrize("name, head, rows", [
    ("p.txt", "", PREDICTED), ("p.jsonl", "", LINES), ("p.jsonl", "", BESIDE),
    ("p.tsv", "index\tprediction", [f"1\t{x}" for x in PREDICTED]),
    ("p.csv", "score,label", [f"0.9,{x}" for x in PREDICTED]),  # the label's probability
    ("p.csv", "label,Prediction", [f"{y},{x}" for y, x in zip(GOLD, PREDICTED, strict=True)]),
])  # fmt: skip
def test_labels_in_any_kind_of_file(labelled, tmp_path, name, head, rows):
    (tmp_path / name).write_text("\n".join([head, *rows] if head else rows))
    result = score_class_files(labelled, tmp_path / name)
    assert result.accuracy == sklearn.metrics.accuracy_score(GOLD, PREDICTED)
    assert [row.label for row in result.classes] == ["a", "b", "c", "d"]
    expected = sklearn.metrics.confusion_matrix(GOLD, PREDICTED).tolist()
    assert [list(row) for row in result.confusion] == expected


def test_a_table_with_the_texts_of_other_rows_is_refused(labelled, tmp_path):
    """As after sorting in a spreadsheet; what formats change in a text is no difference."""
    rows = [f" Text  {i}!,{x}\n" for i, x in enumerate(PREDICTED)]
    (tmp_path / "p.csv").write_text("text,prediction\n" + "".join(rows))
    result = score_class_files(labelled, tmp_path / "p.csv")
    assert result.accuracy == sklearn.metrics.accuracy_score(GOLD, PREDICTED)
    (tmp_path / "p.csv").write_text("text,prediction\n" + "".join(reversed(rows)))
    with refuses(InputError, "p.csv: prediction 1 is for ", "gold.csv has 'text 0'", "'text'"):
        score_class_files(labelled, tmp_path / "p.csv")


def table(path, rows):
    """A file of these rows, dicts, in the format of its ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        lines = [list(rows[0]), *(map(str, row.values()) for row in rows)]
        path.write_text("".join(mark.join(line) + "\n" for line in lines))
    return path


SCORERS = {
    "classes": (score_class_files, [3, 1, 3, 2, 1], [3, 3, 3, 2, 1]),
    "sets": (lambda *files: score_class_files(*files, MULTI), ["a;b", "b"], ["b", "a"]),
    "numbers": (score_number_files, [1.5, 0.5, 2.5, 4.0], [1.0, 2.0, 3.0, 5.0]),
    "choices": (score_choice_files, [1, 0, 1, 0], [1, 1, 1, 0]),
}


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize(("gold_end", "end"), [
    ("csv", "csv"), ("tsv", "jsonl"), ("jsonl", "parquet"), ("parquet", "tsv"), ("csv", "json"),
])  # fmt: skip
@pytest.mark.parametrize(("gold_name", "name"), [("id", "id"), ("idx", "Idx"), ("GUID", "guid")])
def test_predictions_in_another_order_are_paired_by_id(
    tmp_path, scorer, gold_end, end, gold_name, name
):
    score, right, predicted = SCORERS[scorer]
    ids = [7, 12, 3, 10, 5][: len(right)]
    texts = {"prompt": "why", "choice1": "x", "choice2": "y"} if scorer == "choices" else {}
    rows = [
        {gold_name: id_, **texts, "label": label} for id_, label in zip(ids, right, strict=True)
    ]
    guesses = [{name: id_, "prediction": x} for id_, x in zip(ids, predicted, strict=True)]
    gold = table(tmp_path / f"gold.{gold_end}", rows)
    in_order = score(gold, table(tmp_path / f"p.{end}", guesses)).to_json()
    plain = [{"prediction": guess["prediction"]} for guess in guesses]
    assert in_order == score(gold, table(tmp_path / f"plain.{end}", plain)).to_json()
    mixed = table(tmp_path / f"mixed.{end}", [guesses[0], *reversed(guesses[1:])])
    reverse = table(tmp_path / f"reverse.{end}", guesses[::-1])
    for path in (mixed, reverse) if len(right) > 2 else (reverse,):
        with warns(f"the same '{name.lower()}'"):
            assert score(gold, path).to_json() == in_order


def test_ids_are_equal_in_all_their_spellings(tmp_path):
    gold = table(
        tmp_path / "gold.parquet", [{"index": 1.0, "label": "a"}, {"index": 2.0, "label": "b"}]
    )
    path = table(
        tmp_path / "p.csv", [{" index": " 2", "label": "b"}, {" index": "1", "label": "a"}]
    )
    with warns("the same 'index'"):
        assert score_class_files(gold, path).accuracy == 1


ID_ROWS = [
    {"id": id_, "text": f"text {id_}", "label": x} for id_, x in zip("vwxyz", GOLD, strict=True)
]


@pytest.mark.parametrize(("ids", "parts"), [
    ("wvxy", ["p.jsonl: ", "1 of the 5 rows", "id 'z'"]),
    ("vwxy", ["p.jsonl: ", "1 of the 5 rows", "id 'z'"]),
    ("vwyz", ["p.jsonl: ", "1 of the 5 rows", "id 'x'"]),
    ("vwxyzuq", ["p.jsonl: ", "2 of the 7 predictions", "'u'"]),
    ("zvwxya", ["p.jsonl: ", "1 of the 6 predictions", "'a'"]),
    ("vwxyy", ["p.jsonl: 'y'", "1 of 4 values"]),
    ("zzwvw", ["p.jsonl: 'z'", "2 of 3 values"]),
    ("01234", ["p.jsonl: ", "5 of the 5 rows", "id 'v'", "remove the column 'id'"]),
    (["w", "v", "x", "y", None], ["p.jsonl: ", "1 of the 5 rows", "id 'z'"]),
])  # fmt: skip
def test_ids_that_are_refused(tmp_path, ids, parts):
    gold = table(tmp_path / "gold.csv", ID_ROWS)
    path = table(tmp_path / "p.jsonl", [{"id": id_, "prediction": "a"} for id_ in ids])
    with refuses(InputError, "gold.csv" if "'" in parts[1] else "", *parts):
        score_class_files(gold, path)


def test_an_id_with_the_text_of_another_row_is_refused(tmp_path):
    gold = table(tmp_path / "gold.csv", ID_ROWS)
    rows = [
        {"id": id_, "text": f"text {other}", "prediction": "a"}
        for id_, other in zip("zyxwv", "vwxyz", strict=True)
    ]
    path = table(tmp_path / "p.csv", rows)
    with (
        warns("not in the order"),
        refuses(InputError, "p.csv: prediction 5, ", "id 'v'", "'text z'", "gold.csv has 'text v'"),
    ):
        score_class_files(gold, path)


def test_a_column_of_ids_that_repeat_pairs_by_order(tmp_path):
    """As the id of a document whose sentences are the rows."""
    rows = [{"id": id_, "label": x} for id_, x in zip("aabbb", GOLD, strict=True)]
    gold = table(tmp_path / "gold.csv", rows)
    guesses = [{"id": id_, "prediction": x} for id_, x in zip("aabbb", PREDICTED, strict=True)]
    assert score_class_files(gold, table(tmp_path / "p.csv", guesses)).accuracy == 0.6
    with refuses(InputError, "p.csv: 4 predictions", "gold.csv has 5 rows"):
        score_class_files(gold, table(tmp_path / "p.csv", guesses[:-1]))
    with refuses(InputError, "gold.csv: 'a' ", "2 of 2 values", "remove the column 'id'"):
        score_class_files(gold, table(tmp_path / "p.csv", guesses[::-1]))


def test_predictions_for_rows_that_were_skipped_are_left_out(tmp_path):
    rows = [{**row, "label": "" if row["id"] == "x" else row["label"]} for row in ID_ROWS]
    gold = table(tmp_path / "gold.csv", rows)
    guesses = [{"id": id_, "prediction": x} for id_, x in zip("vwxyz", PREDICTED, strict=True)]
    path = table(tmp_path / "p.csv", guesses)
    columns = ClassColumns(skip_incomplete=True)
    with warns("the same 'id'"):
        report = score_class_files(gold, path, columns)
    assert (report.accuracy, report.num_texts) == (0.5, 4)
    more = table(tmp_path / "more.csv", [*guesses, {"id": "u", "prediction": "a"}])
    with refuses(InputError, "more.csv: ", "2 of the 6 predictions"):
        score_class_files(gold, more, columns)


@pytest.mark.parametrize(("gold_name", "name"), [("idx", "id"), ("id", "number"), ("label", "id")])
def test_a_column_of_ids_in_one_file_pairs_by_order(tmp_path, gold_name, name):
    gold = table(tmp_path / "gold.csv", [{gold_name: x, "class": x} for x in GOLD])
    columns = ClassColumns(label_column="class")
    rows = [{name: row, "prediction": x} for row, x in enumerate(PREDICTED)]
    assert score_class_files(gold, table(tmp_path / "p.csv", rows[::-1]), columns).accuracy == 0.2


def test_a_column_that_holds_the_label_is_no_id(tmp_path):
    gold = table(tmp_path / "gold.csv", [{"index": x, "text": "a"} for x in GOLD])
    rows = [{"index": row, "prediction": x} for row, x in enumerate(PREDICTED)]
    path = table(tmp_path / "p.csv", rows)
    assert score_class_files(gold, path, ClassColumns(label_column="index")).accuracy == 0.6


@pytest.mark.parametrize(("prefix", "cure"), [
    ("LABEL_", "transformers"), ("__label__", "fastText"), ("class ", "in the same way"),
])  # fmt: skip
def test_predictions_without_any_gold_label_bring_a_warning(tmp_path, prefix, cure):
    gold = table(tmp_path / "gold.csv", [{"text": "a", "label": x} for x in (0, 1, 1)])
    path = table(tmp_path / "p.csv", [{"label": f"{prefix}{x}"} for x in (0, 1, 1)])
    for options in (None, MULTI):
        issued_warnings.clear()
        with warns(f"{path}: none of its labels", f"{gold}: ", cure):
            assert score_class_files(gold, path, options).to_json()["macro_f1"] == 0


NOTHING = {"label": "b", "error": "timeout"}


@pytest.mark.parametrize("name, content, parts", [
    ("p.txt", "b\na\n", ["p.txt: 2 ", "gold.csv", "5 rows", "begin with 'b', 'a'."]),
    ("p.txt", "guess\nb\na\nb\nb\na\n", ["'guess', 'b', 'a'.", "is a header, remove it"]),
    ("p.csv", "a\nb\n", ["p.csv:1:", "'a'", "or add a header"]),
    ("p.txt", "b\n\na\n", ["p.txt:2:"]),
    ("p.csv", "guess\nb\n", ["p.csv:1:", "'prediction'", "'guess'"]),
    ("p.csv", "words,prediction\nfine,b\nBad, bad,b\n", ["p.csv:3:", "found 3", "row 1"]),
    ("p.jsonl", [{"line": 3, "label": "b"}] * 5, ["p.jsonl: prediction 1 ", "line 3"]),
    ("p.jsonl", [{"label": "b", "prediction": "b"}, NOTHING],
     ["p.jsonl:2:", "'prediction'", "'label', 'error'"]),
    ("p.jsonl", [NOTHING, {"label": "a", "prediction": "b"}],
     ["p.jsonl:2:", "'prediction',", "'label' "]),
    ("p.jsonl", [{"label": "b"}, {"label": ["b"]}], ["p.jsonl:2:", "'label' is a list"]),
    ("p.csv", "\n\n", ["p.csv: no rows"]),
])  # fmt: skip
def test_labels_that_are_refused(labelled, tmp_path, name, content, parts):
    text = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
    (tmp_path / name).write_text(text)
    with refuses(InputError, *parts):
        score_class_files(labelled, tmp_path / name)


@pytest.mark.parametrize("name, answers, parts", [
    ("p.json", '["x"]', ["row 1 of", "p.json:", "found a string"]),
    ("p.json", '"x"', ["p.json:", "found a string", "an object"]),
    ("p.json", '[{"id": "a"}]', ["row 1 of", "p.json:", "'answer'"]),
    ("p.json", '{"a": "x", "a": "y"}', ["p.json:", "'a'"]),
    ("p.json", '{"a": "x",\n}', ["p.json:2:", "column 1"]),
    ("p.jsonl", '{"id": "a", "text": "x"}', ["p.jsonl:1:", "'answer'", "'id', 'text'"]),
])  # fmt: skip
def test_answers_that_are_refused(gold, tmp_path, name, answers, parts):
    (tmp_path / name).write_text(answers)
    with refuses(InputError, *parts):
        score_answer_files(gold, tmp_path / name)


@pytest.mark.parametrize("probs, parts", [
    ({"a": 0.5}, ["2 of the 3", "'b'"]),
    ({"a": "x", "b": 1, "c": 1}, ["'a' is a string"]),
])  # fmt: skip
def test_no_answer_probabilities_that_are_refused(gold, tmp_path, probs, parts):
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y", "c": "z"})
    options = AnswerScoring(as_json(tmp_path / "n.json", probs))
    with refuses(InputError, "n.json:", *parts):
        score_answer_files(gold, given, options)
    with refuses(ConfigError, "--no-answer-threshold: ", "0.5", "--no-answer-probs"):
        score_answer_files(gold, given, AnswerScoring(no_answer_threshold=0.5))


@pytest.mark.parametrize("right, given, columns, parts", [
    ([(WORDS, IOB1), ("no name", "O O")], [(WORDS, IOB1)], TagColumns(),
     ["p.conll: ", "sentence 2", "g.conll"]),
    ([(WORDS, IOB1), ("no name", "O O")], [(WORDS, IOB1), ("any name", "O O")], TagColumns(),
     ["p.conll:8: sentence 2 ", "'any name'", "g.conll:8 'no name'"]),
    ([("a b", "DET NOUN")], [("a b", "B-X O")], TagColumns(),
     ["g.conll:1 ", "p.conll:1:", " plain ", "--label-column", "--scheme"]),
    ([("a b", "DET NOUN")], [("a b", "DET NOUN")], TagColumns(scheme="IOB2"),
     ["g.conll:1 ", "p.conll:1:", "'DET'", "--scheme plain"]),
])  # fmt: skip
def test_sentences_that_are_refused(tmp_path, right, given, columns, parts):
    gold, path = conll(tmp_path / "g.conll", *right), conll(tmp_path / "p.conll", *given)
    with refuses(InputError, *parts):
        score_tag_files(gold, path, columns)


@pytest.mark.parametrize("given, expected", [
    ("1\n3\n1\n", 2 / 3), ("1\n3\n2\n", "3 is '2'"), ("A\n1\n1\n", "1 is 'A'"),
])  # fmt: skip
def test_choices(tmp_path, given, expected):
    rows = [("a", ["x", "y"], 1), ("b", ["x", "y", "z", "w"], 3), ("c", ["x", "y"], 0)]
    gold, path, keys = tmp_path / "gold.jsonl", tmp_path / "p.txt", ("prompt", "choices", "label")
    gold.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))
    path.write_text(given)
    if isinstance(expected, str):
        with refuses(InputError, f"p.txt: prediction {expected}", "0 to 1"):
            score_choice_files(gold, path)
        return
    report = score_choice_files(gold, path)
    assert (report.accuracy, report.num_prompts) == (expected, 3)
    assert report.chance == pytest.approx((0.5 + 0.25 + 0.5) / 3)
