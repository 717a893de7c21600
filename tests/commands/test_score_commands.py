"""score as it is typed: the task it finds, the flags it takes."""

import json

import pytest
from refusals import check_message

from bertsmith.cli import main

FILES = {
    "gold.json": '{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "a", "question": "?", '
    '"answers": [{"text": "x", "answer_start": 0}]}]}]}]}',
    "answers.json": '{"a": "The x!"}',
    "probs.json": '{"a": 0.5}',
    "questions.jsonl": '{"id": "a", "question": "?", "context": "x", '
    '"answers": {"text": ["x"], "answer_start": [0]}}',
    "gold.csv": "text,label\none,1\ntwo,2\n",
    "names.csv": "text,label\none,x\ntwo,y\n",
    "odd.csv": "utterance,intent\none,x\ntwo,y\n",
    "numbers.tsv": "text\tlabel\none\t1.5\ntwo\t3.0\n",
    "labels.txt": "1\n1\n",
    "numbers.txt": "1.0\n3.5\n",
    "values.jsonl": '{"value": 1.0}\n{"value": 2.0}\n',
    "sets.csv": "text,label\none,a;b\ntwo,\n",
    "sets.jsonl": '{"labels": ["b"]}\n{"labels": []}\n',
    "words.conll": "Ada B-PER\nflew O\n",
    "words.tsv": "Ada\tB-PER\n\nflew\tO\n",
    "choices.jsonl": '{"prompt": "a", "choices": ["x", "y"], "label": 1}\n',
    "text.txt": "running text\nand more of it\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def score(files, bertsmith):
    return lambda line: bertsmith("score", *line.split())


@pytest.mark.parametrize(("line", "name", "value"), [
    ("gold.json answers.json", "exact_match", 100),
    ("questions.jsonl answers.json", "exact_match", 100),
    ("gold.csv labels.txt", "accuracy", 0.5),
    ("gold.csv values.jsonl", "rmse", 0),
    ("gold.csv labels.txt --task regress", "rmse", 0.5**0.5),
    ("names.csv labels.txt", "accuracy", 0),
    ("numbers.tsv numbers.txt", "rmse", 0.5),
    ("sets.csv sets.jsonl --multi-label --label-separator ;", "micro_f1", 2 / 3),
    ("words.conll words.conll", "f1", 1),
    ("words.tsv words.tsv", "f1", 1),
    ("choices.jsonl choices.jsonl", "accuracy", 1),
])  # fmt: skip
def test_the_task_is_found_from_the_files(score, line, name, value):
    assert json.loads(score(line + " --json"))[name] == pytest.approx(value)


@pytest.mark.parametrize(("line", "parts"), [
    ("gold.csv numbers.txt", ["gold.csv: ", "--task classify or --task regress", "\n  text,"]),
    ("odd.csv labels.txt", ["odd.csv: ", "--task (answer, choose", "\n  utterance,intent\n"]),
    ("text.txt labels.txt", ["text.txt: ", "--task", "  running text"]),
    ("nowhere.csv labels.txt", ["nowhere.csv: "]),
    (". labels.txt", [" .: "]),
    ("- labels.txt", [" -: "]),
    ("gold.csv -", [" -: ", "--task classify or --task regress"]),
    ("words.conll words.conll --header no", ["--header: words.conll", "tag", "--task"]),
    ("gold.csv labels.txt --label-separator ;", ["--label-separator ';'", "--multi-label"]),
    ("gold.csv labels.txt --strict", ["--strict: gold.csv", "classify", "--task"]),
    ("gold.csv labels.txt --task classify --format conll", ["--format: found 'conll'", " csv, "]),
    ("gold.csv labels.txt --task embed", ["--task: found 'embed'", "answer, choose, classify"]),
])  # fmt: skip
def test_what_is_ambiguous_or_of_another_task_is_refused(files, capsys, line, parts):
    with pytest.raises(SystemExit) as stop:
        main(["score", *line.split()])
    assert stop.value.code == 2
    error = capsys.readouterr().err  # more than one line: it shows how the file begins
    check_message(error, *parts)


def test_reports_are_printed(score, refused):
    assert "100.0000  100.0000          1" in score("gold.json answers.json")
    line = "gold.json answers.json --no-answer-probs probs.json --no-answer-threshold 0.4"
    report = json.loads(score(line + " --language zh --json"))
    assert (report["exact_match"], report["language"], report["best_f1"]) == (0.0, "zh", 50.0)
    assert score("gold.csv labels.txt").startswith("accuracy  0.5000")
    assert score("sets.csv sets.jsonl --multi-label").startswith("micro-F1")
    assert "guessing gets 0.5000" in score("choices.jsonl choices.jsonl")
    line = "gold.csv labels.txt --label-column 1 --text-column 2 --header no"  # a row more
    told = refused("score", *line.split())
    assert all(part in told for part in ("labels.txt: 2 ", "gold.csv", "3 rows"))
