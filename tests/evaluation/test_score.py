"""Files of predictions beside gold files: scores, and what is refused."""

import json
from dataclasses import replace

import pytest
import scipy.stats
import sklearn.metrics
import sklearn.preprocessing

from bertsmith.data.tagged import TagColumns
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.score import (
    AnswerOptions,
    ClassColumns,
    score_answer_files,
    score_choice_files,
    score_class_files,
    score_number_files,
    score_tag_files,
)

MULTI = ClassColumns(multi_label=True)


def squad(path, answers, context="x y z"):
    """A file of questions whose answers are given by id."""
    qas = [
        {
            "id": id_,
            "question": "?",
            "answers": [{"text": text, "answer_start": 0} for text in texts],
        }
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
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "total": 3,
        "HasAns_exact": 50.0,
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 0.0,
        "NoAns_f1": 0.0,
        "NoAns_total": 1,
        "threshold": None,
        "num_unanswered": None,
        "num_missing": 1,
        "num_unknown": 1,
        "num_truncated": 0,
        "num_windowed": 0,
        "num_skipped": 0,
        "num_moved": 1,
        "num_lost": 0,
        "num_empty": 0,
        "protocol": "2.0",
        "language": "en",
    }
    plain = squad(tmp_path / "plain.json", {"a": ["x"], "b": ["y z"]})
    report = score_answer_files(plain, given)
    assert (report.protocol, report.has_answer, report.num_missing) == ("1.1", None, 0)
    text = str(report)
    assert "50.0000   83.3333          2" in text
    assert "1 prediction is for a question that is not asked" in text


def test_no_answer_probabilities_take_answers_back_and_give_the_best_thresholds(gold, tmp_path):
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y", "c": "z"})
    probs = as_json(tmp_path / "n.json", {"a": 0.1, "b": 0.5, "c": 2})
    report = score_answer_files(gold, given, AnswerOptions(probs)).to_json()
    assert report["NoAns_exact"] == 100.0  # 2 is above 1
    assert report["num_unanswered"] == 1
    assert (report["best_exact"], report["best_exact_thresh"]) == (pytest.approx(200 / 3), 0.1)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(800 / 9), 0.5)
    patient = score_answer_files(gold, given, AnswerOptions(probs, 2.0))
    assert patient.no_answer.exact_match == 0
    assert "best F1 88.8889" in str(patient)
    assert "0 of 3 questions were given no answer (threshold 2)" in str(patient)
    given = as_json(tmp_path / "p.json", {"a": "", "b": "y"})  # and none for c
    options = AnswerOptions(probs, 0.2)
    assert score_answer_files(gold, given, options).num_unanswered == 2


def test_predictions_in_lines(gold, tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [
        {"id": "a", "answer": "x", "no_answer_score": -3.0},
        {"id": "b", "answer": "y z", "no_answer_score": -2},
        {"id": "c", "answer": "", "no_answer_score": 4.5},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    report = score_answer_files(gold, path, AnswerOptions(path))
    assert report.overall.exact_match == report.best_f1.score == 100
    assert report.best_f1.threshold == -2
    # Its numbers are logits, by which the answers go already.
    rows[0]["no_answer_score"] = 3.0
    path.write_text("\n".join(map(json.dumps, rows)))
    assert score_answer_files(gold, path, AnswerOptions(path)).overall.exact_match == 100
    strict = score_answer_files(gold, path, AnswerOptions(path, 1))
    assert strict.overall.exact_match == pytest.approx(200 / 3)


def test_right_answers_that_stand_elsewhere_or_nowhere_are_told(tmp_path):
    gold = squad(tmp_path / "gold.json", {"a": ["x", "z", "q"], "b": ["y"]})
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y"})
    report = score_answer_files(gold, given)
    assert (report.num_moved, report.num_lost, report.num_empty) == (2, 1, 0)
    assert "2 right answers stand elsewhere, or with other white space" in str(report)
    assert "1 right answer does not stand in its passage" in str(report)
    empty = score_answer_files(
        squad(tmp_path / "e.json", {"a": [], "b": ["y"]}, context=" "), given
    )
    assert empty.to_json()["num_empty"] == 2
    assert "2 questions or their passages are empty" in str(empty)


def test_the_counts_of_a_published_set(data_dir, tmp_path):
    given = as_json(tmp_path / "p.json", {"none": ""})
    report = score_answer_files(data_dir / "cmrc2018" / "dev.json.xz", given)
    assert (report.num_moved, report.num_lost, report.num_empty) == (7, 193, 0)


def test_chinese_is_seen_and_can_be_chosen(tmp_path):
    gold = squad(tmp_path / "gold.json", {"a": ["曹雪芹"], "b": ["iPhone"]} | {"c": ["北京市"]})
    given = as_json(tmp_path / "p.json", {"a": "雪芹", "b": "iphone", "c": "北京市。"})
    report = score_answer_files(gold, given)
    assert (report.language, report.overall.exact_match) == ("zh", pytest.approx(200 / 3))
    assert report.overall.f1 == pytest.approx(100 * (0.8 + 2) / 3)
    words = score_answer_files(gold, given, AnswerOptions(language="en"))
    assert words.overall.f1 == pytest.approx(100 / 3)
    assert "characters, as CMRC 2018 does" in str(report)


@pytest.mark.parametrize(
    "text, message",
    [
        ('["x"]', r"found a list; an object is expected, from each question's id to its answer"),
        ('{"a": "x", "a": "y"}', "'a' stands twice"),
        ('{"a": null}', "'a' is null; a string .* is expected"),
        ('{"a": 1.5}', "'a' is 1.5; a string"),
        ('{"a": "x",\n}', r"p\.json:2: not JSON"),
        ('{"a": ' + "7" * 5000 + "}", r"p\.json:1: not JSON \(Exceeds the limit"),
        ('{"a": ' + "[" * 200_000, r"p\.json:1: not JSON \(lists or objects too deep"),
        ("", "nothing in it"),
    ],
)
def test_predictions_that_are_none(gold, tmp_path, text, message):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError, match=message):
        score_answer_files(gold, tmp_path / "p.json")


@pytest.mark.parametrize(
    "probs, message",
    [
        ({"a": 0.5}, "no number for 2 of the 3 predictions, such as that for the question 'b'"),
        ({"a": "x", "b": 1, "c": 1}, "'a' is a string; a finite number is expected"),
        ({"a": float("nan"), "b": 1, "c": 1}, "'a' is null; a finite number"),
        ({"a": True, "b": 1, "c": 1}, "'a' is true or false; a finite number"),
        ({"a": 10**400, "b": 1, "c": 1}, "'a' is 10+; a finite number"),
    ],
)
def test_probabilities_that_are_none(gold, tmp_path, probs, message):
    given = as_json(tmp_path / "p.json", {"a": "x", "b": "y", "c": "z"})
    with pytest.raises(InputError, match=message):
        options = AnswerOptions(as_json(tmp_path / "n.json", probs))
        score_answer_files(gold, given, options)


def test_lines_without_their_keys(gold, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "a", "text": "x"}')
    with pytest.raises(InputError, match=r"p\.jsonl:1: no key 'answer'. Keys found: 'id', 'text'"):
        score_answer_files(gold, tmp_path / "p.jsonl")


GOLD = ["b", "a", "b", "c", "a"]
PREDICTED = ["b", "b", "b", "d", "a"]


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "gold.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{x}\n" for i, x in enumerate(GOLD)))
    return path


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "tsv"])
def test_labels_in_any_kind_of_file(labelled, tmp_path, kind):
    path = tmp_path / f"p.{kind}"
    if kind == "jsonl":
        rows = ({"row": i, "label": x} for i, x in enumerate(PREDICTED, start=2))
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        cut = {"txt": "", "csv": "1,", "tsv": "1\t"}[kind]
        head = {"txt": "", "csv": "index,prediction\n", "tsv": "index\tprediction\n"}[kind]
        path.write_text(head + "".join(f"{cut}{x}\n" for x in PREDICTED))
    result = score_class_files(labelled, path)
    assert result.accuracy == sklearn.metrics.accuracy_score(GOLD, PREDICTED)
    assert [row.label for row in result.classes] == ["a", "b", "c", "d"]
    assert [list(row) for row in result.confusion] == sklearn.metrics.confusion_matrix(
        GOLD, PREDICTED
    ).tolist()
    assert result.macro_f1 == sklearn.metrics.f1_score(
        GOLD, PREDICTED, average="macro", zero_division=0
    )


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("p.txt", "b\na\n", r"2 predictions, but .*gold\.csv has 5 rows"),
        ("p.txt", "b\n\na\n", r"p\.txt:2: the label is empty"),
        ("p.csv", "guess\nb\n", r"p\.csv:1: no column of predictions .* Columns found: 'guess'"),
        ("p.jsonl", '{"row": 3, "label": "b"}\n' * 5, "prediction 1 is for row 3, but"),
        (
            "p.csv",
            "text,prediction\nfine,b\nBad, bad,b\n",
            r"p\.csv:3: found 3 columns where row 1",
        ),
        ("p.tsv", "label\tprediction\nb\ta\nb\n", r"p\.tsv:3: found 1 columns where row 1 has 2"),
        ("p.csv", "label,Pred,PRED\nb,b,a\n", r"p\.csv:1: several columns are called 'pred'"),
        (
            "p.jsonl",
            '{"label": "b", "prediction": "b"}\n{"label": "a", "error": "timeout"}\n',
            r"p\.jsonl:2: no key 'prediction', which the lines before have.* 'label', 'error'",
        ),
        (
            "p.jsonl",
            '{"label": "b", "error": "timeout"}\n{"label": "a", "prediction": "b"}\n',
            r"p\.jsonl:2: has 'prediction', which the lines before lack: there, 'label' was taken",
        ),
        ("p.jsonl", '{"label": NaN}\n', r"p\.jsonl:1: the label is empty"),
    ],
)
def test_labels_that_do_not_belong(labelled, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        score_class_files(labelled, tmp_path / name)


def test_a_header_may_hold_one_name_in_two_spellings(labelled, tmp_path):
    rows = "".join(f"a,{x}\n" for x in GOLD)
    (tmp_path / "p.csv").write_text("Prediction,prediction\n" + rows)
    assert score_class_files(labelled, tmp_path / "p.csv").accuracy == 1


@pytest.mark.parametrize("name", ["prediction", "predicted", "pred", "value", "Prediction"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_label_beside_a_prediction_is_the_right_one(labelled, tmp_path, kind, name):
    path = tmp_path / f"p.{kind}"
    if kind == "jsonl":
        rows = ({"label": x, name: "a"} for x in GOLD)
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path.write_text(f"text,label,{name}\n" + "".join(f"t,{x},a\n" for x in GOLD))
    assert score_class_files(labelled, path).accuracy == 2 / 5


def test_a_score_beside_a_label_is_its_probability(labelled, tmp_path):
    (tmp_path / "p.csv").write_text("score,label\n" + "".join(f"0.9,{x}\n" for x in GOLD))
    assert score_class_files(labelled, tmp_path / "p.csv").accuracy == 1


@pytest.mark.parametrize(
    "right, given, message",
    [
        (
            "10",
            "1 0.0",
            r"p\.txt: prediction 2 is '0\.0', the same number as '0' in row 3 of .*gold",
        ),
        ("1x", "none 1.0", r"prediction 2 is '1\.0', the same number as '1' in row 2 of"),
        ("10", "2 +2", r"prediction 2 is '\+2', the same number as '2' in prediction 1\. Write"),
        ("10", "1 False", r"prediction 2 is 'False', the same as '0' in row 3 of"),
        (["1", "1.0"], "1 1", r"gold\.csv:3: the label '1\.0' is the same number as '1' in row 2"),
    ],
)
def test_one_number_in_two_spellings(labelled, tmp_path, right, given, message):
    labelled.write_text("text,label\n" + "".join(f"t,{x}\n" for x in right))
    (tmp_path / "p.txt").write_text("\n".join(given.split()))
    with pytest.raises(InputError, match=message):
        score_class_files(labelled, tmp_path / "p.txt")


def test_names_beside_numbers_are_wrong_answers(labelled, tmp_path):
    labelled.write_text("text,label\nt,1\nt,0\nt,0\n")
    (tmp_path / "p.txt").write_text("1\nnone\n2\n")
    assert score_class_files(labelled, tmp_path / "p.txt").accuracy == 1 / 3


@pytest.mark.parametrize("value, found", [(["b"], "a list"), ({"b": 1}, "an object")])
def test_values_that_are_no_labels(labelled, tmp_path, value, found):
    rows = [{"label": "b"}, {"label": value}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=rf"p\.jsonl:2: 'label' is {found}; a string or a number"):
        score_class_files(labelled, tmp_path / "p.jsonl")


SETS = ["a,b", "", "c", "b, a", "d"], ["b", "", "c,a", "a,b", "e"]


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl", "text.jsonl"])
def test_several_labels(tmp_path, kind):
    gold, path = tmp_path / "gold.csv", tmp_path / f"p.{kind}"
    gold.write_text("text,label\n" + "".join(f'some,"{x}"\n' for x in SETS[0]))
    true, given = ([[x.strip() for x in row.split(",") if x] for row in rows] for rows in SETS)
    if kind == "txt":
        path.write_text("".join(f"{x}\n" for x in SETS[1]))
    elif kind == "csv":
        path.write_text("id,prediction\n" + "".join(f'1,"{x}"\n' for x in SETS[1]))
    else:
        rows = given if kind == "jsonl" else SETS[1]
        path.write_text("".join(json.dumps({"labels": x}) + "\n" for x in rows))
    report = score_class_files(gold, path, MULTI)
    flags = sklearn.preprocessing.MultiLabelBinarizer().fit([*true, *given])
    arrays = flags.transform(true), flags.transform(given)
    for average, found in (("micro", report.micro_f1), ("macro", report.macro_f1)):
        wanted = sklearn.metrics.f1_score(*arrays, average=average, zero_division=0)
        assert found == wanted
    assert report.subset_accuracy == sklearn.metrics.accuracy_score(*arrays)
    assert [row.label for row in report.classes] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "name, head", [("p.txt", ""), ("p.csv", "labels\n"), ("p.tsv", "labels\n")]
)
def test_the_last_texts_have_no_label(tmp_path, name, head):
    gold, path = tmp_path / "gold.csv", tmp_path / name
    gold.write_text("text,label\none,b\ntwo,\nthree,a\nfour,\nfive,\n")
    path.write_text(head + "b\n\n\n\n\n")
    report = score_class_files(gold, path, MULTI)
    assert (report.num_texts, report.subset_accuracy) == (5, 4 / 5)


def test_several_labels_that_cannot_be_scored(tmp_path):
    gold, path = tmp_path / "gold.csv", tmp_path / "p.jsonl"
    gold.write_text("text,label\nsome,\nmore,\n")
    path.write_text('{"labels": []}\n{"labels": [{}]}\n')
    with pytest.raises(
        InputError, match=r"p\.jsonl:2: 'labels' is an object; a string or a number"
    ):
        score_class_files(gold, path, MULTI)
    path.write_text('{"labels": null}\n{"labels": ""}\n')
    with pytest.raises(InputError, match=r"gold\.csv: no row has a label"):
        score_class_files(gold, path, MULTI)
    with pytest.raises(ConfigError, match="--label-separator: found nothing"):
        score_class_files(gold, path, replace(MULTI, label_separator=""))


def test_numbers(labelled, tmp_path):
    true, predicted = [1.0, 2.5, -3.0, 0.5], [1.5, 2.0, -1.0, 0.0]
    labelled.write_text("text,label\n" + "".join(f"a,{x}\n" for x in true))
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps({"value": x}) for x in predicted))
    report = score_number_files(labelled, tmp_path / "p.jsonl")
    assert report.pearson == pytest.approx(scipy.stats.pearsonr(true, predicted).statistic)
    assert report.spearman == pytest.approx(scipy.stats.spearmanr(true, predicted).statistic)
    (tmp_path / "p.txt").write_text("1\n2\nthree\n4\n")
    with pytest.raises(InputError, match=r"prediction 3: 'three' is not a number.* Fix the row.$"):
        score_number_files(labelled, tmp_path / "p.txt")
    pairs = zip(true, predicted, strict=True)
    both = "text,label,prediction\n" + "".join(f"a,{x},{y}\n" for x, y in pairs)
    (tmp_path / "p.csv").write_text(both)
    assert score_number_files(labelled, tmp_path / "p.csv") == report
    (tmp_path / "p.csv").write_text(both.replace("prediction", "score"))
    assert score_number_files(labelled, tmp_path / "p.csv") == report


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
    given = conll(
        tmp_path / "p.conll", (WORDS, "B-PER I-PER B-LOC O B-PER O"), ("no name", "O B-LOC")
    )
    report = score_tag_files(gold, given)
    assert (report.precision, report.recall) == (2 / 4, 2 / 3)
    assert report.accuracy == 6 / 8
    assert [(row.label, row.num_correct) for row in report.types] == [("LOC", 1), ("PER", 1)]
    everything_out = conll(tmp_path / "o.conll", (WORDS, "O O O O O O"), ("no name", "O O"))
    assert score_tag_files(gold, everything_out).recall == 0
    assert score_tag_files(gold, gold).f1 == 1
    late = conll(tmp_path / "late.conll", (WORDS, "O O O O O O"), ("no name", "B-LOC I-LOC"))
    assert score_tag_files(gold, late).scheme == "IOB2"


def test_illegal_predictions_are_of_the_gold_scheme(tmp_path):
    gold = conll(tmp_path / "gold.conll", (WORDS, "B-PER O B-LOC O B-PER O"))
    given = conll(tmp_path / "p.conll", (WORDS, "I-PER O I-LOC O I-PER O"))
    report = score_tag_files(gold, given)
    assert (report.scheme, report.num_illegal, report.f1, report.accuracy) == ("IOB2", 1, 1, 0.5)
    assert score_tag_files(gold, given, TagColumns(strict=True)).f1 == 0
    both = score_tag_files(gold, given, TagColumns(scheme="IOB1"))
    assert (both.scheme, both.num_illegal, both.num_illegal_gold) == ("IOB1", 0, 1)


def test_gold_labels_of_nothing_but_o_fit_any_predictions(tmp_path):
    gold = conll(tmp_path / "gold.conll", (WORDS, "O O O O O O"))
    given = conll(tmp_path / "p.conll", (WORDS, "O NAME O O NAME O"))
    report = score_tag_files(gold, given)
    assert (report.scheme, report.accuracy, report.total.num_predicted) == ("plain", 4 / 6, 2)


def test_sentences_without_words_are_passed_over(tmp_path):
    given = conll(tmp_path / "p.conll", (WORDS, IOB1), ("no name", "O O"))
    empty = {"words": [], "labels": []}
    rows = [
        {"words": text.split(), "labels": labels.split()}
        for text, labels in ((WORDS, IOB1), ("no name", "O O"))
    ]
    gold = tmp_path / "gold.jsonl"
    gold.write_text("\n".join(map(json.dumps, [empty, rows[0], empty, rows[1], empty])))
    for report in (score_tag_files(gold, given), score_tag_files(given, gold)):
        assert (report.num_sentences, report.num_words, report.f1) == (2, 8, 1)
    gold.write_text(json.dumps(empty))
    with pytest.raises(InputError, match=r"gold\.jsonl: no sentence with words in it"):
        score_tag_files(gold, given)


def test_comments_in_columns_are_told(tmp_path):
    given = conll(tmp_path / "p.conll", (WORDS, IOB1))
    gold = tmp_path / "gold.conll"
    gold.write_text("# of Ada\n# by Bo\n" + given.read_text())
    report = score_tag_files(gold, given)
    assert report.remarks == {"comments": 2}
    assert "2 lines that begin with # were taken for comments" in str(report)
    assert score_tag_files(given, gold).remarks == {"comments": 2}


@pytest.mark.parametrize("places", [{}, {"answer_start": 5}])
def test_answers_are_scored_wherever_they_stand(tmp_path, places):
    row = {"id": "a", "question": "?", "context": "x y"}
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps(row | {"answers": [{"text": "y"} | places]}))
    given = as_json(tmp_path / "p.json", {"a": "y"})
    report = score_answer_files(gold, given)
    assert (report.overall.f1, report.num_moved, report.num_lost) == (100, len(places), 0)
    gold.write_text(json.dumps(row | {"answers": {"text": ["y"]}}))
    assert score_answer_files(gold, given).overall.f1 == 100


@pytest.mark.parametrize("threshold", [-1, 0.5, float("nan"), float("inf")])
def test_a_threshold_of_nothing_or_that_is_none(gold, tmp_path, threshold):
    given = as_json(tmp_path / "p.json", {"a": "x"})
    with pytest.raises(ConfigError, match=r"--no-answer-threshold: .*(finite|--no-answer-probs)"):
        score_answer_files(gold, given, AnswerOptions(no_answer_threshold=threshold))


def test_labels_of_both_are_made_legal_on_request(tmp_path):
    words = "Li saw Yu"
    gold = conll(tmp_path / "g.conll", (words, "I-PER O B-PER"), (words, "B-PER O B-PER"))
    given = conll(tmp_path / "p.conll", (words, "B-PER O I-PER"), (words, "B-PER O B-PER"))
    strict = TagColumns(scheme="IOB2", strict=True)
    before = score_tag_files(gold, given, strict)
    assert (before.accuracy, before.num_illegal, before.num_illegal_gold) == (4 / 6, 1, 1)
    report = score_tag_files(gold, given, replace(strict, repair=True))
    assert (report.f1, report.accuracy, report.total.support) == (1, 1, 4)
    assert report.remarks == {"repaired": 1, "repaired_predictions": 1}
    assert "1 sentences had predicted labels that break the scheme, and were" in str(report)


def test_text_of_both_is_cut_alike(tmp_path):
    path = tmp_path / "don't.jsonl"
    entity = {"start": 0, "end": 5, "label": "X"}
    path.write_text(json.dumps({"text": "don't go.", "entities": [entity]}) + "\n")
    assert score_tag_files(path, path, TagColumns(split="spaces")).num_words == 2


def test_labels_of_no_scheme_are_told_with_their_place(tmp_path):
    gold = conll(tmp_path / "g.conll", ("a b", "DET NOUN"))
    with pytest.raises(InputError, match=r"g\.conll:1 and .*p\.conll:1: labels of the scheme"):
        score_tag_files(gold, conll(tmp_path / "p.conll", ("a b", "B-X O")))
    with pytest.raises(InputError, match=r"g\.conll:1.*'DET' does not tell"):
        score_tag_files(gold, gold, TagColumns(scheme="IOB2"))


def test_sentences_that_are_not_the_same(tmp_path):
    gold = conll(tmp_path / "gold.conll", (WORDS, IOB1), ("no name", "O O"))
    short = conll(tmp_path / "short.conll", (WORDS, IOB1))
    with pytest.raises(InputError, match=r"short\.conll: 1 sentences, but .*gold\.conll has more"):
        score_tag_files(gold, short)
    with pytest.raises(InputError, match=r"short\.conll: 1 sentences"):
        score_tag_files(short, gold)
    other = conll(tmp_path / "other.conll", (WORDS, IOB1), ("any name", "O O"))
    with pytest.raises(InputError, match=r"other\.conll:8: sentence 2 begins 'any name', but in"):
        score_tag_files(gold, other)


def test_choices(tmp_path):
    rows = [("a", ["x", "y"], 1), ("b", ["x", "y", "z", "w"], 3), ("c", ["x", "y"], 0)]
    gold = tmp_path / "gold.jsonl"
    keys = ("prompt", "choices", "label")
    gold.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))
    (tmp_path / "p.txt").write_text("1\n3\n1\n")
    report = score_choice_files(gold, tmp_path / "p.txt")
    assert (report.accuracy, report.num_prompts) == (2 / 3, 3)
    assert report.chance == pytest.approx((0.5 + 0.25 + 0.5) / 3)
    for text, found in (
        ("1\n3\n2\n", "prediction 3 is '2'; allowed are 0 to 1"),
        ("A\n1\n1\n", "'A'"),
        ("7" * 5000 + "\n1\n1\n", "prediction 1 is '7+'; allowed are 0 to 1"),
    ):
        (tmp_path / "p.txt").write_text(text)
        with pytest.raises(InputError, match=found):
            score_choice_files(gold, tmp_path / "p.txt")
