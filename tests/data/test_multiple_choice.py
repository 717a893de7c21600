"""Multiple choice is read from every usual shape; what names no choice is one clear error."""

import pytest
from refusals import refuses

from bertsmith.data.columns import ChoiceColumns
from bertsmith.data.multiple_choice import ChoiceExample, ChoiceReader
from bertsmith.errors import InputError

BARE = {"text_column": "2", "choice_columns": "3-6", "label_column": "7"}
ROW = {"prompt": "p", "choices": ["a", "b"], "label": 1}
THREE = ("q", ("a", "b", "c"), 1)


def write(directory, content, name="a.csv"):
    (directory / name).write_text(content)
    return directory / name


def read(source, **columns):
    return list(ChoiceReader(source, ChoiceColumns(**columns)))


def test_a_tsv_without_a_header_by_numbers(tmp_path):
    row = 'o\tHe "sat". He\tran.\tslept.\tate.\tleft.\t2\r\n'
    table = write(tmp_path, row * 2 + "i\tA\tb\tc\td\te\t0", "a.tsv")
    first, _, last = read(table, **BARE)
    assert first == ChoiceExample('He "sat". He', ("ran.", "slept.", "ate.", "left."), 2, 1)
    assert last == ChoiceExample("A", ("b", "c", "d", "e"), 0, 3)


SWAG = ",video-id,startphrase,sent1,sent2,ending3,ending0,ending1,ending2,label\n"


@pytest.mark.parametrize("content, columns, expected", [
    (f'{SWAG}0,v,x,"Ann, 7, sits.",She,d,a,b,c,3\n', {},
     ("Ann, 7, sits.", ("She a", "She b", "She c", "She d"), 3)),
    *((f"question,{stem}1,{stem}2,{stem}3,{label}\nq,a,b,c,1\n", {}, THREE)
      for stem, label in (("answer", "answer"), ("choice", "label"))),
    ("prompt,choice1,choice2,choice3,label\nq,a,b,,B\n", {}, ("q", ("a", "b"), 1)),
    ("prompt,choice1,choice2,label\nq,a,b,1\n", {"first_label": 1}, ("q", ("a", "b"), 0)),
])  # fmt: skip
def test_tables_of_usual_shapes(tmp_path, content, columns, expected):
    assert read(write(tmp_path, content), **columns) == [ChoiceExample(*expected, 2)]


def test_a_question_about_another_text_begins_the_choices():
    copa = {"premise": "It rained.", "choice1": "a", "choice2": "b", "question": "why", "label": 0}
    assert read([copa]) == [ChoiceExample("It rained.", ("why a", "why b"), 0, 1)]
    assert read([copa], start_column="none")[0].choices == ("a", "b")
    asked = {"question": "Who?", "choices": ["a", "b"], "label": 1}
    assert read([asked]) == [ChoiceExample("Who?", ("a", "b"), 1, 1)]
    with refuses(InputError, "row 2 of the rows given", "'context'", "--text-column"):
        read([asked, asked | {"context": "A long text."}])


def test_rows_may_have_other_keys_and_other_numbers_of_choices():
    assert [e.label for e in read([ROW, ROW | {"label": "B"}, ROW | {"label": "a"}])] == [1, 1, 0]
    first = {"premise": "p", "choice2": "b", "choice1": "a", "label": 1}
    rows = [first, {**first, "choice3": "c"}, {**first, "sent2": "She"}]
    choices = [("a", "b"), ("a", "b", "c"), ("She a", "She b")]
    assert [(e.choices, e.label) for e in read(rows, first_label=1)] == [(c, 0) for c in choices]


def test_incomplete_rows_are_skipped_on_request_and_counted():
    broken = [{**ROW, "choices": ["a"]}, {"prompt": "p", "choices": ["a", "b"]}, {"prompt": "p"}]
    reader = ChoiceReader([ROW, *broken, ROW], ChoiceColumns(skip_incomplete=True))
    assert ([example.row for example in reader], reader.num_skipped) == ([1, 5], 3)
    with refuses(InputError, "the rows given"):
        read(broken[:1], skip_incomplete=True)


def test_a_right_choice_that_stands_there_twice_is_refused():
    """A model sees no difference between the two; two equal wrong choices do no harm."""
    for choices in (["a", "b", "b"], ["b", "b"]):
        row = ROW | {"choices": choices}
        with refuses(InputError, "row 2 of the rows given", "'b'", "2 times", "--skip-incomplete"):
            read([ROW, row])
        reader = ChoiceReader([ROW, row], ChoiceColumns(skip_incomplete=True))
        assert (len(reader.read()), reader.num_skipped) == (1, 1)
        assert len(ChoiceReader([row], labelled=False).read()) == 1
    assert read([ROW | {"choices": ["a", "b", "a"]}])[0].label == 1


TABLE = "said,a,b,label\nx,y,z,0\n"
HEAD = "prompt,choice1,choice2,choice3,label\n"
NUMBERS = {"text_column": "1", "choice_columns": "2,3", "label_column": "4"}
SAID = {"text_column": "said"}
ALLOWED = ["0 to 1", "A to B"]


@pytest.mark.parametrize(("source", "columns", "parts"), [
    *((ROW | changes, {}, parts) for changes, parts in (
        ({"label": "2"}, ["'2'", *ALLOWED, "--first-label 1"]), ({"label": "C"}, ["'C'", *ALLOWED]),
        ({"label": " "}, ["'label'", "--skip-incomplete"]),
        ({"choices": ["a"]}, ["one choice", "two or more", "--choice-columns"]),
        ({"choices": ["a", 3]}, ["'choices'", "a number"]))),
    ({"prompt": "p", "choices": ["a", "b"]}, {}, ["'label'", "'prompt', 'choices'"]),
    (TABLE, {}, ["'said', 'a'", "--text-column"]), (TABLE, SAID, ["'said'", "--choice-columns"]),
    (TABLE, NUMBERS, [":1:", "'label'"]),
    (TABLE, SAID | {"choice_columns": "a,c"}, ["'a,c'", "'said', 'a'", "--choice-columns"]),
    (TABLE, NUMBERS | {"choice_columns": "2-99999999"}, ["'2-99999999'", "1 to 4"]),  # never listed
    (f"{HEAD}p,a,,c,1\n", {}, [":2:", "'choice1' or 'choice2' or 'choice3'"]),
])  # fmt: skip
def test_what_is_refused(tmp_path, source, columns, parts):
    is_file = isinstance(source, str)
    place = "a.csv:" if is_file else "row 2 of the rows given:"
    with refuses(InputError, place, *parts) as caught:
        read(write(tmp_path, source) if is_file else [ROW, source], **columns)
    assert "\n" not in str(caught.value)
