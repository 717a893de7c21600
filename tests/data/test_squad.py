"""Questions as the file has them, and every way in which a file can be wrong."""

import gzip
import json
from pathlib import Path

import pytest
from refusals import refuses

from bertsmith.data.squad import GoldAnswer, QuestionReader, locate_answer
from bertsmith.errors import InputError

CONTEXT = "Ada 👩‍🚀 flew to Mars, then to Mars again. شكرا"
MARS = CONTEXT.index("Mars")


def question(id_="q", *answers, **changes):
    records = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id_, "question": "Where?", "answers": records, **changes}


def as_rows(*qas, context=CONTEXT):
    return [{**qa, "context": context} for qa in qas]


def write(path, *qas, context=CONTEXT):
    paragraphs = [{"context": context, "qas": list(qas)}]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return path


def test_questions_with_their_answers(tmp_path):
    again = CONTEXT.rindex("Mars")
    qas = [
        question("a", ("Mars", MARS), ("Mars", again)),
        question("b", ("شكرا", CONTEXT.index("شكرا")), is_impossible=False),
        question("c", (" ", 0), ("", -1), is_impossible=True),
    ]
    reader = QuestionReader(write(tmp_path / "a.json", *qas))
    for _ in range(2):  # it can be read again
        first, second, third = reader
        assert (first.id, first.row, third.row) == ("a", 1, 3)
        assert first.answers == (GoldAnswer("Mars", MARS), GoldAnswer("Mars", again))
        assert CONTEXT[second.answers[0].start :] == "شكرا"
        assert third.answers == ()
        assert first.context is second.context
        assert third.location == "data[0].paragraphs[0].qas[2]"
        assert (reader.num_questions, reader.num_moved, reader.num_lost) == (3, 0, 0)


def test_answers_that_stand_elsewhere_are_found_again():
    qas = [
        question("near", ("Mars", MARS + 2)),
        question("second", ("Mars", len(CONTEXT))),
        question("unknown", ("Ada", -1)),
        question("lost", ("Venus", 3), ("Ada", 0)),
    ]
    reader = QuestionReader(as_rows(*qas))
    starts = [[answer.start for answer in one.answers] for one in reader]
    assert starts == [[MARS], [CONTEXT.rindex("Mars")], [0], [None, 0]]
    assert (reader.num_moved, reader.num_lost) == (3, 1)


SPACED = "Paris,\nNew  York or New\tYork. Paris"


@pytest.mark.parametrize("context, text, start, expected", [
    *(("xx  xx  xx", "xx", start, GoldAnswer("xx", place, start != place))
      for start, place in ((4, 4), (-5, 0), (2, 0), (3, 4), (99, 8))),
    (SPACED, "  Paris", 28, GoldAnswer("  Paris", 30, True, 5)),
    (SPACED, "New York", 7, GoldAnswer("New York", 7, True, 9)),
    (SPACED, "NewYork ", 7, GoldAnswer("NewYork ", None)),
])  # fmt: skip
def test_the_nearest_place_whatever_white_space_stands_there(context, text, start, expected):
    assert locate_answer(context, text, start) == expected


def test_answers_are_not_looked_for_where_none_are_wanted():
    rows = as_rows({"id": "a", "question": "Who?"}, context="  ")
    reader = QuestionReader(rows, labelled=False)
    assert [one.answers for one in reader] == [()]
    assert reader.num_empty == 1
    with refuses(InputError, "row 1 ", "'answers'", "'id', 'question'"):
        list(QuestionReader(rows))


def test_the_moved_answers_of_a_published_set_are_found(data_dir):
    reader = QuestionReader(data_dir / "cmrc2018" / "dev.json.xz")
    for one in reader:
        for answer in one.answers:
            place = one.context[answer.start : answer.stop] if answer.start is not None else None
            assert place is None or "".join(place.split()) == "".join(answer.text.split())
    assert (reader.num_questions, reader.num_moved, reader.num_lost) == (3219, 7, 193)


def test_right_answers_are_wanted_of_some_question():
    silent = [question(name) for name in "abc"]
    with refuses(InputError, "the rows given:", "3 questions", '"is_impossible": true'):
        list(QuestionReader(as_rows(*silent)))
    assert len(list(QuestionReader(as_rows(*silent), labelled=False))) == 3
    for last in (question("d", ("Mars", 0)), question("d", is_impossible=True)):
        assert [one.id for one in QuestionReader(as_rows(*silent, last))] == list("abcd")


ANSWERED = {"answers": {"text": ["Ada"], "answer_start": [0]}}


@pytest.mark.parametrize("source, parts", [
    (question(7.5), ["a.json: data[0].paragraphs[0].qas[0]:", "'id'", "a number", "a string"]),
    (question("q", ("Ada", 0.5)), ["qas[0].answers[0]:", "'answer_start'", "0.5", "whole number"]),
    (question(answers={"text": ["a"], "answer_start": []}), ["'text' and 'answer", "1 and 0"]),
    (question(answers="Ada"), ["qas[0]:", "'answers'", "a string", "a list"]),
    (("a.json", '{"data": []}'), ["a.json:"]),
    (("a.json", '{"data": [{"title": "x"}]}'), ["data[0]:", "'paragraphs'", "'title'"]),
    (("a.jsonl", '{"question": "a", "context": "b"}'), ["a.jsonl: line 1:", "'answers'"]),
    (("a.csv", "question"), ["a.csv:", "in .csv", ".json", ".jsonl"]), (("none", None), ["none:"]),
    (("a.json", '[{"question": "a"}]'), ["a.json: row 1:", "'context'"]),
    (("a.json", "[3]"), ["row 1 of", "a.json"]), (("a.parquet", "PAR1"), ["a.parquet:"]),
    ([question(7, ("Ada", 0.0)), question("7")], ["row 2 of the rows given:", "'7'"]),
])  # fmt: skip
def test_what_is_refused(tmp_path, source, parts):
    if isinstance(source, list):
        source = as_rows(*source)
    elif isinstance(source, tuple):
        name, text = source
        source = tmp_path / name
        if text is not None:
            source.write_text(text)
    else:
        source = write(tmp_path / "a.json", source)
    with refuses(InputError, *parts):
        list(QuestionReader(source))


def test_lines_of_questions_share_neighbouring_contexts(tmp_path):
    rows = [question(7, ("Ada", 0.0)), {"question": "Who?", **ANSWERED}]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, as_rows(*rows))).encode()))
    first, second = QuestionReader(path)
    assert first.context is second.context
    assert first.answers == second.answers == (GoldAnswer("Ada", 0),)
    assert (first.id, second.id, second.location) == ("7", "line 2", "line 2")


def test_lines_of_standard_input(monkeypatch, tmp_path):
    path = tmp_path / "in"
    path.write_text('{"question": "Who?", "context": "Ada flew."}\nWho flew?\n')
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        found = iter(QuestionReader(Path("-"), labelled=False))
        assert next(found).context == "Ada flew."
        with refuses(InputError, "standard input:2: ", worded=False):  # the JSON reader's words
            next(found)
