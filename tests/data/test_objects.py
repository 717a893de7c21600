"""Labelled words and questions in Parquet tables and lists of JSON objects, as in jsonl."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet
from refusals import refuses

from bertsmith.data.objects import read_objects
from bertsmith.data.predictions import read_answers, read_no_answer_probs
from bertsmith.data.squad import QuestionReader
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.errors import InputError

SENTENCES = [
    {"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]},
    {"tokens": ["Peter"], "ner_tags": ["B-PER"]},
]
QUESTIONS = [
    {
        "id": "a", "question": "Where?", "context": "to Mars",
        "answers": {"text": ["Mars"], "answer_start": [3]},
    },
    {
        "id": "b", "question": "Why?", "context": "to Mars",
        "answers": {"text": [], "answer_start": []},
    },
]  # fmt: skip
NAMES = ["O", "B-PER", "B-ORG"]
ANSWERS = [
    {"id": "a", "answer": "Mars", "no_answer_score": 0.5},
    {"id": "b", "answer": "", "no_answer_score": 2.0},
]


def write(path, rows, features=None):
    """Write rows in the format that the name says; gives the path."""
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(rows)
        if features is not None:
            metadata = {"huggingface": json.dumps({"info": {"features": features}})}
            table = table.replace_schema_metadata(metadata)
        parquet.write_table(table, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_rows_are_read_as_lines_of_jsonl(ending, tmp_path):
    lines, rows = tmp_path / "a.jsonl", tmp_path / f"a.{ending}"
    assert list(TaggedReader(write(rows, SENTENCES))) == list(TaggedReader(write(lines, SENTENCES)))
    expected = list(QuestionReader(write(lines, QUESTIONS)))
    found = list(QuestionReader(write(rows, QUESTIONS)))
    assert [replace(one, location="") for one in found] == [
        replace(one, location="") for one in expected
    ]
    assert [one.location for one in found] == ["row 1", "row 2"]
    assert found[0].context is found[1].context
    write(rows, ANSWERS)
    assert read_answers(rows) == {"a": "Mars", "b": ""}
    assert read_no_answer_probs(rows) == {"a": 0.5, "b": 2.0}


@pytest.mark.parametrize("feature", [
    {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"},
    [{"names": NAMES, "_type": "ClassLabel"}],
])  # fmt: skip
def test_parquet_files_name_their_classes(feature, tmp_path):
    rows = [{**row, "ner_tags": [NAMES.index(tag) for tag in row["ner_tags"]]} for row in SENTENCES]
    path = write(tmp_path / "a.parquet", rows, {"ner_tags": feature, "tokens": {"_type": "List"}})
    sentences = list(TaggedReader(path))
    assert [list(sentence.labels) for sentence in sentences] == [["B-ORG", "O"], ["B-PER"]]
    assert {sentence.scheme for sentence in sentences} == {"IOB2"}
    write(path, [*rows, {"tokens": ["a"], "ner_tags": [3]}], {"ner_tags": feature})
    with refuses(InputError, "row 3 of", "'ner_tags'", "class 3", "3 classes"):
        list(TaggedReader(path))
    write(path, rows)  # without names the numbers are the labels
    assert [list(sentence.labels) for sentence in TaggedReader(path)] == [["2", "0"], ["1"]]


def test_broken_rows_of_words_are_refused(tmp_path):
    rows = [*SENTENCES, {"tokens": ["a"], "ner_tags": []}]
    for ending in ("json", "parquet"):
        with refuses(InputError, "row 3 of", f"a.{ending}", "1, of labels 0"):
            list(TaggedReader(write(tmp_path / f"a.{ending}", rows)))
    (tmp_path / "a.json").write_text(json.dumps({"data": SENTENCES}))
    with refuses(InputError, "a.json:", "an object", "a list of objects"):
        list(TaggedReader(tmp_path / "a.json"))
    for ending in ("csv", "xlsx", "pdf"):
        (tmp_path / f"a.{ending}").write_text("word,label\n")
        with refuses(InputError, f"a.{ending}:", f"not read from .{ending}", ".parquet"):
            list(TaggedReader(tmp_path / f"a.{ending}"))


@pytest.mark.parametrize(("value", "problem"), [
    ('"x', "Unterminated string starting at column 7)"),
    (r'"\q"', r"Invalid \escape at column 8)"),
    ('"\x01"', "Invalid control character at column 8)"),
    (r'"\u12"', r"Invalid \uXXXX escape at column "), ("tru", "Expecting value at column 7)"),
])  # fmt: skip
def test_a_line_that_is_not_json_names_the_place_once(tmp_path, value, problem):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": ' + value + "}\n")
    with refuses(InputError, "a.jsonl:1: not JSON (", problem, worded=False) as caught:
        list(read_objects(path))
    assert "at at" not in str(caught.value) and ":  at" not in str(caught.value)
