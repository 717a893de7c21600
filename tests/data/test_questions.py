"""Questions as the file has them, and every way in which a file can be wrong."""

import gzip
import json
import sys
import tracemalloc
from pathlib import Path

import pytest

from bertsmith.data.squad import Answer, QuestionReader, SeenIds, locate_answer
from bertsmith.errors import InputError

CONTEXT = "Ada 👩‍🚀 flew to Mars, then to Mars again. شكرا"


def question(id_="q", *answers, **changes):
    records = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id_, "question": "Where?", "answers": records, **changes}


def write(path, *qas, context=CONTEXT):
    paragraphs = [{"context": context, "qas": list(qas)}]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return path


def test_questions_with_their_answers(tmp_path):
    mars, thanks = CONTEXT.index("Mars"), CONTEXT.index("شكرا")
    qas = [
        question("a", ("Mars", mars), ("Mars", CONTEXT.rindex("Mars"))),
        question("b", ("شكرا", thanks), is_impossible=False),
        question("c", (" ", 0), ("", -1), is_impossible=True),
    ]
    reader = QuestionReader(write(tmp_path / "a.json", *qas))
    for _ in range(2):  # it can be read again
        first, second, third = reader
        assert first.id == "a"
        assert first.answers == (Answer("Mars", mars), Answer("Mars", CONTEXT.rindex("Mars")))
        assert CONTEXT[second.answers[0].start :] == "شكرا"
        assert third.answers == ()
        assert first.context is second.context
        assert third.place == "data[0].paragraphs[0].qas[2]"
        assert [q.row for q in (first, second, third)] == [1, 2, 3]
        assert (reader.num_questions, reader.num_moved, reader.num_lost) == (3, 0, 0)


def test_answers_that_stand_elsewhere_are_found_again(tmp_path):
    mars = CONTEXT.index("Mars")
    qas = [
        question("near", ("Mars", mars + 2)),
        question("second", ("Mars", len(CONTEXT))),
        question("unknown", ("Ada", -1)),
        question("lost", ("Venus", 3), ("Ada", 0)),
    ]
    reader = QuestionReader(write(tmp_path / "a.json", *qas))
    near, second, unknown, lost = reader
    assert near.answers[0].start == mars
    assert second.answers[0].start == CONTEXT.rindex("Mars")
    assert unknown.answers[0].start == 0
    assert lost.answers == (Answer("Venus", None), Answer("Ada", 0))
    assert (reader.num_moved, reader.num_lost) == (3, 1)


def test_white_space_around_and_within_an_answer_is_not_looked_for(tmp_path):
    context = "Paris,\nNew  York or New\tYork. Paris"
    qas = [
        question("after", ("Paris ", 0)),
        question("before", ("  Paris", 28)),
        question("exact", (" York", 11)),
        question("within", ("New York", 7), ("New York\n", 18)),
        question("lost", ("NewYork ", 7)),
    ]
    reader = QuestionReader(write(tmp_path / "a.json", *qas, context=context))
    after, before, exact, within, lost = (one.answers for one in reader)
    assert after == (Answer("Paris ", 0, True, 5),)
    assert before == (Answer("  Paris", 30, True, 5),)
    assert exact == (Answer(" York", 11),)
    assert [context[a.start : a.stop] for a in within] == ["New  York", "New\tYork"]
    assert (lost[0].start, lost[0].stop) == (None, None)
    assert (reader.num_moved, reader.num_lost) == (4, 1)


@pytest.mark.parametrize("start, found", [(-5, 0), (1, 0), (2, 0), (3, 4), (9, 8), (99, 8)])
def test_the_nearest_of_several(start, found):
    assert locate_answer("xx  xx  xx", "xx", start).start == found


def test_lines_of_questions_share_neighbouring_contexts(tmp_path):
    rows = [
        {**question("a", ("Ada", 0)), "context": CONTEXT},
        {"question": "Who?", "context": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [0]}},
    ]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    first, second = QuestionReader(path)
    assert first.context is second.context
    assert first.answers == second.answers
    assert (second.id, second.place) == ("line 2", "line 2")


def test_answers_are_not_looked_for_where_none_are_wanted(tmp_path):
    path = write(tmp_path / "a.json", {"id": "a", "question": "Who?"}, context="  ")
    reader = QuestionReader(path, labelled=False)
    assert [q.answers for q in reader] == [()]
    assert reader.num_empty == 1
    with pytest.raises(InputError, match=r"qas\[0\]: no key 'answers'. Keys found: 'id', 'quest"):
        list(QuestionReader(path))


@pytest.mark.parametrize(
    "qa, message",
    [
        (question(7.5), r"qas\[0\]: 'id' is a number; a string is expected"),
        (question(True), "'id' is true or false; a string"),
        (question("q", ("Ada", 0.5)), r"answers\[0\]: 'answer_start' is 0.5; a whole number is"),
        (question("q", ("Ada", float("nan"))), "'answer_start' is null; a whole number"),
        (question("q", ("Ada", None)), "'answer_start' is null; a whole number"),
        (question(question=None), r"'question' is null; a string"),
        (question(answers={"text": []}), "no key 'answer_start'"),
        (question(answers={"text": ["a"], "answer_start": []}), "1 texts and 0 answer_starts"),
        (question(answers="Ada"), "'answers' is a string; a list"),
        (question(answers=["Ada"]), r"qas\[0\]\.answers\[0\] is a string; an object"),
        (question("q", ("Ada", "0")), r"answers\[0\]: 'answer_start' is a string; a whole number"),
        (question("q", ("Ada", True)), "'answer_start' is true or false"),
        (question("q", (["Ada"], 0)), "'text' is a list; a string"),
        ("Who?", r"data\[0\]\.paragraphs\[0\]\.qas\[0\] is a string; an object"),
    ],
)
def test_wrong_types_and_missing_keys(tmp_path, qa, message):
    with pytest.raises(InputError, match=message):
        list(QuestionReader(write(tmp_path / "a.json", qa)))


def test_numbers_as_other_programs_write_them(tmp_path):
    path = write(tmp_path / "a.json", question(7, ("Ada", 0.0)), question("8", ("flew", 8.0)))
    first, second = QuestionReader(path)
    assert (first.id, first.answers) == ("7", (Answer("Ada", 0),))
    assert (second.id, second.answers) == ("8", (Answer("flew", 8),))
    with pytest.raises(InputError, match=r"qas\[1\]: the id '7' belongs to an earlier"):
        list(QuestionReader(write(tmp_path / "b.json", question(7), question("7"))))


def test_an_id_that_stands_twice(tmp_path):
    path = write(tmp_path / "a.json", question("x"), question("y"), question("x"))
    with pytest.raises(InputError, match=r"qas\[2\]: the id 'x' belongs to an earlier question"):
        list(QuestionReader(path))


def test_ids_are_told_apart_in_little_memory():
    ids = [f"{number:024x}" for number in range(20_000)]
    tracemalloc.start()
    try:
        seen = SeenIds()
        assert all(seen.add(id_) for id_ in ids)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 24 * len(ids)
    assert not any(seen.add(id_) for id_ in ids)
    assert seen.add("")
    assert not seen.add("")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.json", '{"data": []}', "no questions"),
        ("a.json", '{"data": [{"title": "x"}]}', r"data\[0\]: no key 'paragraphs'"),
        ("a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', "no key 'context'"),
        ("a.jsonl", '{"question": "a", "context": "b"}', "line 1: no key 'answers'"),
        ("a.csv", "question", "'.csv' is not a file of questions"),
        ("a", "question", "'no ending' is not a file of questions"),
    ],
)
def test_files_that_are_none_of_questions(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        list(QuestionReader(tmp_path / name))


@pytest.mark.parametrize(
    "text, message",
    [
        ("Who flew?\n", r'^standard input:1: not JSON .* "context": "The passage ..."}\.$'),
        ("", r'^standard input: nothing in it.* "context": "The passage'),
        ('{"question": "Who?"}', r"^standard input: line 1: no key 'context'\. Keys found"),
        ('{"question": "Who?", "context": "Ada flew."}', None),
    ],
)
def test_lines_of_standard_input(monkeypatch, tmp_path, text, message):
    (tmp_path / "in").write_text(text)
    reader = QuestionReader(Path("-"), labelled=False)
    with (tmp_path / "in").open() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        if message is None:
            assert [(one.question, one.context) for one in reader] == [("Who?", "Ada flew.")]
            return
        with pytest.raises(InputError, match=message):
            list(reader)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(QuestionReader(tmp_path / "a.json"))
    with pytest.raises(InputError, match="a folder"):
        list(QuestionReader(tmp_path))


@pytest.mark.parametrize(
    "name, counts",
    [
        ("squad/dev-v1.1.json", (10570, 0, 0)),
        ("squad/dev-v2.0.json", (11873, 0, 0)),
        ("cmrc2018/trial.json.xz", (1002, 5, 0)),
        ("cmrc2018/dev.json.xz", (3219, 7, 193)),
    ],
)
def test_published_sets(data_dir, name, counts):
    reader = QuestionReader(data_dir / name)
    for one in reader:
        for answer in one.answers:
            assert answer.start is None or "".join(
                one.context[answer.start : answer.stop].split()
            ) == "".join(answer.text.split())
    assert (reader.num_questions, reader.num_moved, reader.num_lost) == counts


def test_right_answers_are_wanted_of_some_question(tmp_path):
    silent = [question(name) for name in "abc"]
    path = write(tmp_path / "a.json", *silent)
    with pytest.raises(InputError, match=r"none of the 3 questions has an answer.*is_impossible"):
        list(QuestionReader(path))
    assert len(list(QuestionReader(path, labelled=False))) == 3
    for last in (question("d", ("Mars", 0)), question("d", is_impossible=True)):
        reader = QuestionReader(write(path, *silent, last, question("e")))
        assert [(one.id, one.row) for one in reader] == list(zip("abcde", range(1, 6), strict=True))
    with pytest.raises(InputError, match="none of the 1 questions"):
        list(QuestionReader(write(path, question("d", is_impossible=False))))
