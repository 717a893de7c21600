"""score answer and score classify as they are typed."""

import json

import pytest

from bertsmith.cli import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    qas = [{"id": "a", "question": "?", "answers": [{"text": "x", "answer_start": 0}]}]
    data = {"data": [{"paragraphs": [{"context": "x", "qas": qas}]}]}
    (tmp_path / "gold.json").write_text(json.dumps(data))
    (tmp_path / "answers.json").write_text('{"a": "The x!"}')
    (tmp_path / "probs.json").write_text('{"a": 0.5}')
    (tmp_path / "gold.csv").write_text("text,label\none,1\ntwo,2\n")
    (tmp_path / "labels.txt").write_text("1\n1\n")
    monkeypatch.chdir(tmp_path)


def run(capsys, line):
    main(line.split())
    return capsys.readouterr().out


def test_answers(files, capsys):
    line = "score answer --gold gold.json --predictions answers.json"
    report = json.loads(run(capsys, line + " --json"))
    assert (report["exact_match"], report["f1"], report["total"]) == (100.0, 100.0, 1)
    assert "100.0000  100.0000          1" in run(capsys, line)
    line += " --no-answer-probs probs.json --no-answer-threshold 0.4 --language zh --json"
    report = json.loads(run(capsys, line))
    assert (report["exact_match"], report["language"], report["best_f1"]) == (0.0, "zh", 50.0)


def test_labels(files, capsys):
    line = "score classify --gold gold.csv --predictions labels.txt"
    assert json.loads(run(capsys, line + " --json"))["accuracy"] == 0.5
    assert run(capsys, line).startswith("accuracy  0.5000")
    line += " --label-column 1 --text-column 2 --header no --json"
    with pytest.raises(SystemExit):  # the header is a row then
        main(line.split())
    assert "2 predictions, but gold.csv has 3 rows" in capsys.readouterr().err


def test_several_labels(files, tmp_path, capsys):
    (tmp_path / "sets.csv").write_text("text,label\none,a;b\ntwo,\n")
    (tmp_path / "sets.jsonl").write_text('{"labels": ["b"]}\n{"labels": []}\n')
    line = "score classify --gold sets.csv --predictions sets.jsonl --multi-label"
    report = json.loads(run(capsys, line + " --label-separator ; --json"))
    assert (report["micro_f1"], report["subset_accuracy"]) == (2 / 3, 0.5)
    assert run(capsys, line).startswith("micro-F1")


def test_numbers(files, capsys):
    line = "score regress --gold gold.csv --predictions labels.txt --json"
    assert json.loads(run(capsys, line))["rmse"] == pytest.approx(0.5**0.5)


def test_labels_of_words(files, tmp_path, capsys):
    (tmp_path / "words.conll").write_text("Ada B-PER\nflew O\n")
    line = "score tag --gold words.conll --predictions words.conll --json"
    assert json.loads(run(capsys, line))["f1"] == 1


def test_choices(files, tmp_path, capsys):
    row = {"prompt": "a", "choices": ["x", "y"], "label": 1}
    (tmp_path / "choices.jsonl").write_text(json.dumps(row))
    line = "score choose --gold choices.jsonl --predictions choices.jsonl"
    assert json.loads(run(capsys, line + " --json"))["accuracy"] == 1
    assert "guessing gets 0.5000" in run(capsys, line)


def test_a_task_that_has_no_scores_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["score", "embed"])
    assert "'score embed' is not a command. After 'score': " in capsys.readouterr().err
