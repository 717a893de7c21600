"""Multiple choice is read from every usual shape; what names no choice is one clear error."""

import pytest

from bertsmith.data.multiple_choice import ChoiceColumns, ChoiceExample, ChoiceReader
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import ConfigError, InputError

BARE = {"text_column": "2", "choice_columns": "3-6", "label_column": "7"}
ROW = {"prompt": "p", "choices": ["a", "b"], "label": 1}
TWO = ChoiceExample("p", ("a", "b"), 1, 2)
THREE = ChoiceExample("q", ("a", "b", "c"), 1, 2)


def write(directory, content, name="a.csv"):
    (directory / name).write_bytes(content.encode())
    return directory / name


def read(source, **columns):
    return list(ChoiceReader(source, ChoiceColumns(**columns)))


def refusal(source, **columns):
    with pytest.raises(InputError) as caught:
        read(source, **columns)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_tsv_without_a_header_by_numbers(tmp_path):
    row = 'o\tHe "sat". He\tran.\tslept.\tate.\tleft.\t2\r\n'
    table = write(tmp_path, row * 2 + "i\tA\tb\tc\td\te\t0", "a.tsv")
    first, _, last = read(table, **BARE)
    assert first == ChoiceExample('He "sat". He', ("ran.", "slept.", "ate.", "left."), 2, 1)
    assert last == ChoiceExample("A", ("b", "c", "d", "e"), 0, 3)
    assert read(table, **{**BARE, "choice_columns": "6, 3,4"})[2].choices == ("e", "b", "c")


LONG = f"choice{'1' * 5000}"


@pytest.mark.parametrize(
    "content, columns, expected",
    [
        (
            ",video-id,startphrase,sent1,sent2,ending3,ending0,ending1,ending2,label\n"
            '0,v,x,"Ann, 7, sits.",She,d,a,b,c,3\n',
            {},
            ChoiceExample("Ann, 7, sits.", ("She a", "She b", "She c", "She d"), 3, 2),
        ),
        *(  # a column serves one purpose
            (f"question,{stem}1,{stem}2,{stem}3,{label}\nq,a,b,c,1\n", columns, THREE)
            for stem, label, columns in (
                ("answer", "answer", {}),
                ("choice", "label", {}),
                ("ending", "Answer", {}),
                ("choice", "choice", {"label_column": "choice"}),
                ("option", "option", {"label_column": "option"}),
            )
        ),
        ("question,answer,answer1,answer2,label\nq,a,b,c,1\n", {}, THREE),
        ("prompt,10,11,12,label\nq,a,b,c,1\n", {"choice_columns": "10-12"}, THREE),
        (f"prompt,{LONG}2,{LONG}1,choice,label\nq,c,b,a,1\n", {}, THREE),
        (
            "prompt,choice1,choice2,choice3,label\nq,a,b,,1\n",
            {},
            ChoiceExample("q", ("a", "b"), 1, 2),
        ),
        ("\ufeffprompt,choice0,choice1,label\r\np,a,b,1", {}, ChoiceExample("p", ("a", "b"), 1, 2)),
        ("prompt,choices1,choices2,label\np,a,b,B", {}, ChoiceExample("p", ("a", "b"), 1, 2)),
    ],
)
def test_tables_of_usual_shapes(tmp_path, content, columns, expected):
    assert read(write(tmp_path, content), **columns) == [expected]


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("question,answer2,answer3,answer", {}),
        ("question,choice1,choice2,choice3", {"label_column": "choice3"}),
    ],
)
def test_without_labels_the_same_columns_are_read(tmp_path, head, asked):
    table = write(tmp_path, f"{head}\nq,a,b,1\n")
    for labelled in (True, False):
        (example,) = ChoiceReader(table, ChoiceColumns(**asked), labelled=labelled)
        assert example == ChoiceExample("q", ("a", "b"), 1 if labelled else None, 2)
    (example,) = ChoiceReader([{"question": "q", "answer": ["a", "b"]}], labelled=False)
    assert example.choices == ("a", "b")


def test_a_question_about_another_text_begins_the_choices():
    copa = {"premise": "It rained.", "choice1": "a", "choice2": "b", "question": "why", "label": 0}
    asked = {"question": "Who?", "choices": ["a", "b"], "label": 1}
    assert read([copa]) == [ChoiceExample("It rained.", ("why a", "why b"), 0, 1)]
    for columns in ({"text_column": "question"}, {"start_column": "none"}):
        assert read([copa], **columns)[0].choices == ("a", "b")
    refused = refusal([asked, asked | {"context": "A long text."}])
    assert "has 'context', which the rows before lack" in refused
    assert read([asked, asked | {"note": 1}])[1] == ChoiceExample("Who?", ("a", "b"), 1, 2)


def test_rows_with_different_keys_and_numbers_of_choices():
    assert [e.label for e in read([ROW, ROW | {"label": "B"}, ROW | {"label": "a"}])] == [1, 1, 0]
    assert len(read([ROW, ROW | {"choices": ["a", "b", "c"]}])[1].choices) == 3
    first = {"premise": "p", "choice2": "b", "choice1": "a", "label": 1}
    assert read([first], first_label=1) == [ChoiceExample("p", ("a", "b"), 0, 1)]
    rows = [first, {**first, "choice3": "c"}, {**first, "sent2": "She"}]
    assert [example.choices for example in read(rows)] == [
        ("a", "b"), ("a", "b", "c"), ("She a", "She b"),
    ]  # fmt: skip
    eleven = {f"choice {number}": str(number) for number in reversed(range(1, 12))}
    (example,) = read([{"prompt": "p", **eleven, "label": "K"}])
    assert example == ChoiceExample("p", tuple(map(str, range(1, 12))), 10, 1)


def test_incomplete_rows_are_skipped_on_request_and_counted():
    broken = [{**ROW, "choices": ["a"]}, {"prompt": "p", "choices": ["a", "b"]}, {"prompt": "p"}]
    reader = ChoiceReader([ROW, *broken, ROW], ChoiceColumns(skip_incomplete=True))
    assert ([example.row for example in reader], reader.num_skipped) == ([1, 5], 3)
    assert "no complete rows" in refusal(broken[:1], skip_incomplete=True)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("2", "allowed are 0 to 1, or A to B. Fix the row, or pass --first-label 1"),
        ("3", "allowed are 0 to 1, or A to B. Fix the row."),
        ("C", "the label is 'C'; allowed are 0 to 1, or A to B"),
        ("-1", "the label is '-1'"),
        ("?", "the label is '?'"),
        ("7" * 5000, "allowed are 0 to 1, or A to B. Fix the row."),
        ("ß", "the label is 'ß'"),
        (" ", "'label' is empty. Fix the row, or pass --skip-incomplete"),
        (True, "'label' is true or false"),
    ],
)
def test_labels_that_name_no_choice(label, expected):
    assert expected in refusal([ROW | {"label": label}])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ROW | {"choices": ["a"]}, "row 2 of the rows given: found one choice. Give two or more"),
        (ROW | {"choices": ["a", 3]}, "'choices' is a number"),
        (ROW | {"choices": [["a"], "b"]}, "'choices' is a list"),
        (ROW | {"choices": ["", "b"]}, "'choices' is empty"),
        (ROW | {"choices": []}, "'choices' is empty"),
        (ROW | {"prompt": 7}, "'prompt' is a number; a string is"),
        ({"prompt": "p", "choices": ["a", "b"]}, "no key 'label'"),
    ],
)
def test_rows_that_do_not_fit(value, expected):
    assert expected in refusal([ROW, value])


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, "no column looks like the prompt. Columns found: 'said', 'a'"),
        ({"text_column": "said"}, "no column looks like the choices"),
        ({"text_column": "said", "choice_columns": "a,c"}, "no column 'a,c'"),
        (
            {"text_column": "1", "choice_columns": "5-7", "label_column": "4"},
            "no column '5-7'. The first row, read without a header, has 4",
        ),
        # refused before they are listed
        ({"text_column": "said", "choice_columns": "2-99999999"}, "no column '2-99999999'"),
        ({"text_column": "1", "choice_columns": "2-" + "7" * 5000}, "no column '2-777"),
        ({"text_column": "7" * 5000}, "no column '777"),
        (
            {"text_column": "1", "choice_columns": "2,3", "label_column": "4"},
            ":1: the label is 'label'",
        ),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, expected):
    assert expected in refusal(write(tmp_path, "said,a,b,label\nx,y,z,0\n"), **columns)


def test_files_that_hold_no_choices(tmp_path):
    table = write(tmp_path, "prompt,choice1,choice2,label\np,a,b,c,0\n")
    assert ":2: found 5 columns where row 1 has 4" in refusal(table)
    gap = write(tmp_path, "prompt,choice1,choice2,choice3,label\np,a,,c,1\n", "b.csv")
    assert "'choice1' or 'choice2' or 'choice3' is empty" in refusal(gap)
    for source in (write(tmp_path, "x\n", "d.txt"), STANDARD_INPUT):
        assert "lines of text have no columns" in refusal(source)


def test_a_limit():
    assert len(ChoiceReader([ROW] * 5).read(3)[0]) == 3
    with pytest.raises(ConfigError, match="--limit: found 0"):
        ChoiceReader([ROW]).read(0)


def test_codah(data_dir):
    for name, count in (("train", 1665), ("dev", 556), ("test", 555)):
        examples = read(data_dir / "codah" / f"{name}.tsv", **BARE)
        assert len(examples) == count
        assert {len(example.choices) for example in examples} == {4}
        assert {example.label for example in examples} == {0, 1, 2, 3}
