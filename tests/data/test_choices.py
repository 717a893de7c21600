"""Multiple choice is read from every usual shape; what names no choice is one clear error."""

import json

import pytest

from bertsmith.data.multiple_choice import ChoiceColumns, ChoiceExample, ChoiceReader, read_choices
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import ConfigError, InputError


def write(directory, name, content):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_jsonl(directory, *objects):
    return write(directory, "a.jsonl", "".join(json.dumps(value) + "\n" for value in objects))


def read(path, **columns):
    return read_choices(path, ChoiceColumns(**columns))[0]


def refusal(path, **columns):
    with pytest.raises(InputError) as caught:
        read(path, **columns)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


BARE = {"text_column": "2", "choice_columns": "3-6", "label_column": "7"}


def test_a_tsv_without_a_header_by_numbers(tmp_path):
    table = write(
        tmp_path,
        "a.tsv",
        'o\tHe "sat". He\tran.\tslept.\tate.\tleft.\t2\r\n' * 2 + "i\tA\tb\tc\td\te\t0",
    )
    examples = read(table, **BARE)
    choices = ("ran.", "slept.", "ate.", "left.")
    assert examples[0] == ChoiceExample('He "sat". He', choices, 2, 1)
    assert examples[2] == ChoiceExample("A", ("b", "c", "d", "e"), 0, 3)
    listed = read(table, **{**BARE, "choice_columns": "6, 3,4"})
    assert listed[2].choices == ("e", "b", "c")


def test_swag_by_its_own_names(tmp_path):
    head = ",video-id,startphrase,sent1,sent2,ending3,ending0,ending1,ending2,label\n"
    table = write(tmp_path, "a.csv", head + '0,v,x,"Ann, 7, sits.",She,d,a,b,c,3\n')
    (example,) = read(table)
    assert example == ChoiceExample("Ann, 7, sits.", ("She a", "She b", "She c", "She d"), 3, 2)


def test_a_column_serves_one_purpose(tmp_path):
    row = "What is red?,sky,grass,blood,snow,2\n"
    expected = ChoiceExample("What is red?", ("sky", "grass", "blood", "snow"), 2, 2)
    for stem, label in (("answer", "answer"), ("choice", "label"), ("ending", "Answer")):
        head = f"question,{stem}1,{stem}2,{stem}3,{stem}4,{label}\n"
        assert read(write(tmp_path, "a.csv", head + row)) == [expected]
    for name in ("choice", "option"):
        head = f"question,{name}1,{name}2,{name}3,{name}4,{name}\n"
        assert read(write(tmp_path, "a.csv", head + row), label_column=name) == [expected]
    answers = {"question": "What?", "answer0": "sky", "answer1": "blood", "answer": "B"}
    assert read(write_jsonl(tmp_path, answers)) == [ChoiceExample("What?", ("sky", "blood"), 1, 1)]
    refused = refusal(write(tmp_path, "a.csv", "question,answer\nWhat?,2\n"))
    assert "no column looks like the choices" in refused
    table = write(tmp_path, "b.csv", "question,answer,answer1,answer2,label\nq,a,b,c,0\n")
    assert read(table) == [ChoiceExample("q", ("a", "b", "c"), 0, 2)]


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("question,answer2,answer3,answer", {}),
        ("question,choice1,choice2,choice3", {"label_column": "choice3"}),
    ],
)
def test_without_labels_the_same_columns_are_read(tmp_path, head, asked):
    table = write(tmp_path, "a.csv", f"{head}\nq,a,b,1\n")
    for labelled in (True, False):
        (example,) = ChoiceReader(table, ChoiceColumns(**asked), labelled=labelled)
        assert example == ChoiceExample("q", ("a", "b"), 1 if labelled else None, 2)
    listed = write_jsonl(tmp_path, {"question": "q", "answer": ["a", "b"]})
    assert next(iter(ChoiceReader(listed, labelled=False))).choices == ("a", "b")


def test_standard_input_has_no_choices():
    with pytest.raises(InputError, match=r"^standard input: lines of text have no columns\."):
        list(ChoiceReader(STANDARD_INPUT, labelled=False))


def test_a_question_about_another_text_begins_the_choices(tmp_path):
    copa = {"premise": "It rained.", "choice1": "a", "choice2": "b", "question": "why", "label": 0}
    asked = {"question": "Who?", "choices": ["a", "b"], "label": 1}
    path = write_jsonl(tmp_path, copa)
    assert read(path) == [ChoiceExample("It rained.", ("why a", "why b"), 0, 1)]
    assert read(path, text_column="question")[0].choices == ("a", "b")
    assert read(path, start_column="none")[0].choices == ("a", "b")
    path = write_jsonl(tmp_path, asked, asked | {"context": "A long text."})
    assert "has 'context', which the rows before lack" in refusal(path)
    path = write_jsonl(tmp_path, asked, asked | {"note": "no text"})
    assert read(path)[1] == ChoiceExample("Who?", ("a", "b"), 1, 2)


def test_lists_of_any_length(tmp_path):
    table = write_jsonl(
        tmp_path,
        {"context": "one", "choices": ["a", "b"], "label": 1},
        {"context": "two", "choices": ["a", "b", "c"], "label": "C"},
        {"context": "three", "choices": ["a", "b"], "label": "a"},
    )
    examples = read(table)
    assert [len(example.choices) for example in examples] == [2, 3, 2]
    assert [example.label for example in examples] == [1, 2, 0]


def test_keys_in_place_of_a_list_and_labels_from_one(tmp_path):
    table = write_jsonl(tmp_path, {"premise": "p", "choice2": "b", "choice1": "a", "label": 2})
    assert read(table, first_label=1) == [ChoiceExample("p", ("a", "b"), 1, 1)]


def test_keys_that_the_first_line_lacks(tmp_path):
    first = {"premise": "p", "choice1": "a", "choice2": "b", "label": 1}
    table = write_jsonl(tmp_path, first, {**first, "choice3": "c"}, {**first, "sent2": "She"})
    assert [example.choices for example in read(table)] == [
        ("a", "b"),
        ("a", "b", "c"),
        ("She a", "She b"),
    ]


def test_what_lacks_a_choice_or_a_key_is_skipped_on_request_and_counted(tmp_path):
    first = {"prompt": "p", "choices": ["a", "b"], "label": 1}
    lines = [first, {**first, "choices": ["a"]}, {"prompt": "p", "choices": ["a", "b"]},
             {"prompt": "p", "label": 1}, first]  # fmt: skip
    table = write_jsonl(tmp_path, *lines)
    kept, num_skipped = read_choices(table, ChoiceColumns(skip_incomplete=True))
    assert ([example.row for example in kept], num_skipped) == ([1, 5], 3)
    assert "found one choice" in refusal(table)
    nothing = write_jsonl(tmp_path, lines[1])
    assert "no complete rows" in refusal(nothing, skip_incomplete=True)


def test_ten_choices_stand_in_their_order(tmp_path):
    names = [f"choice {number}" for number in range(1, 12)]
    table = write(tmp_path, "a.tsv", "\t".join(["prompt", *sorted(names), "label"]) + "\n"
                  + "\t".join(["p", *sorted(names), "K"]) + "\n")  # fmt: skip
    assert read(table) == [ChoiceExample("p", tuple(names), 10, 2)]


def test_columns_called_by_numbers_and_by_very_long_ones(tmp_path):
    table = write(tmp_path, "a.tsv", "prompt\t10\t11\t12\tlabel\np\ta\tb\tc\t1\n")
    assert read(table, choice_columns="10-12")[0].choices == ("a", "b", "c")
    names = ["choice", *(f"choice{'1' * 5000}{number}" for number in "12")]
    head = "\t".join(["prompt", *reversed(names), "label"])
    table = write(tmp_path, "b.tsv", f"{head}\np\tc\tb\ta\t1\n")
    assert read(table)[0].choices == ("a", "b", "c")


def test_empty_cells_at_the_end_are_fewer_choices(tmp_path):
    head = "prompt\tchoice1\tchoice2\tchoice3\tlabel\n"
    table = write(tmp_path, "a.tsv", head + "p\ta\tb\t\t1\np\ta\tb\tc\t2\n")
    assert [example.choices for example in read(table)] == [("a", "b"), ("a", "b", "c")]
    gap = write(tmp_path, "b.tsv", head + "p\ta\t\tc\t1\np\ta\tb\t\t0\n")
    assert "'choice1' or 'choice2' or 'choice3' is empty" in refusal(gap)
    kept, num_skipped = read_choices(gap, ChoiceColumns(skip_incomplete=True))
    assert (len(kept), num_skipped) == (1, 1)


def test_a_byte_order_mark_and_no_final_newline(tmp_path):
    table = write(tmp_path, "a.csv", b"\xef\xbb\xbfprompt,choice0,choice1,label\r\np,a,b,1")
    assert read(table) == [ChoiceExample("p", ("a", "b"), 1, 2)]


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
    ],
)
def test_labels_that_name_no_choice(tmp_path, label, expected):
    table = write(tmp_path, "a.tsv", f"prompt\tchoice0\tchoice1\tlabel\np\ta\tb\t{label}\n")
    assert expected in refusal(table)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"context": "c", "choices": ["a"], "label": 0}, ":2: found one choice"),
        ({"context": "c", "choices": ["a", 3], "label": 0}, "'choices' is a number"),
        ({"context": 7, "choices": ["a", "b"], "label": 0}, "'context' is a number; a string is"),
        ({"context": "c", "choices": ["a", "b"], "label": True}, "'label' is true or false"),
        ({"context": "c", "choices": ["a", "b"]}, ":2: no key 'label'"),
        ({"context": "c", "choices": [], "label": 0}, "'choices' is empty"),
    ],
)
def test_objects_that_do_not_fit(tmp_path, value, expected):
    first = {"context": "c", "choices": ["a", "b"], "label": 0}
    assert expected in refusal(write_jsonl(tmp_path, first, value))


def test_columns_that_are_not_there(tmp_path):
    table = write(tmp_path, "a.tsv", "said\ta\tb\tlabel\nx\ty\tz\t0\n")
    assert "no column looks like the prompt. Columns found: 'said', 'a'" in refusal(table)
    assert "no column looks like the choices" in refusal(table, text_column="said")
    assert "no column 'a,c'" in refusal(table, text_column="said", choice_columns="a,c")
    assert "no column '5-7'. The first row, read without a header, has 4" in refusal(
        table, text_column="1", choice_columns="5-7", label_column="4"
    )
    many = "no column '2-99999999'"  # which are refused before they are listed
    assert many in refusal(table, text_column="said", choice_columns="2-99999999")
    assert "no column '2-777" in refusal(table, text_column="1", choice_columns="2-" + "7" * 5000)
    assert "no column '777" in refusal(table, text_column="7" * 5000)
    assert ":1: the label is 'label'" in refusal(
        table, text_column="1", choice_columns="2,3", label_column="4"
    )


def test_ragged_rows_and_nothing_at_all(tmp_path):
    table = write(tmp_path, "a.tsv", "prompt\tchoice0\tchoice1\tlabel\np\ta\tb\tc\t0\n")
    assert ":2: found 5 columns where row 1 has 4" in refusal(table)
    fuller = write(tmp_path, "e.tsv", table.read_text() + "p\ta\tb\t1\n")
    kept, num_skipped = read_choices(fuller, ChoiceColumns(skip_incomplete=True))
    assert ([example.row for example in kept], num_skipped) == ([3], 1)
    assert "no complete rows" in refusal(write(tmp_path, "b.tsv", "prompt\tchoices\tlabel\n"))
    assert "nothing in it" in refusal(write(tmp_path, "c.tsv", ""))
    assert "no columns" in refusal(write(tmp_path, "d.txt", "x\n"))


def test_a_limit(tmp_path):
    table = write(tmp_path, "a.tsv", "prompt\tchoice0\tchoice1\tlabel\n" + "p\ta\tb\t0\n" * 5)
    assert len(read_choices(table, limit=3)[0]) == 3
    with pytest.raises(ConfigError, match="--limit: found 0"):
        read_choices(table, limit=0)


def test_codah(data_dir):
    for name, count in (("train", 1665), ("dev", 556), ("test", 555)):
        examples, num_skipped = read_choices(
            data_dir / "codah" / f"{name}.tsv", ChoiceColumns(**BARE)
        )
        assert (len(examples), num_skipped) == (count, 0)
        assert {len(example.choices) for example in examples} == {4}
        assert {example.label for example in examples} == {0, 1, 2, 3}


def test_a_table_by_another_name(tmp_path):
    path = write(tmp_path, "a.txt", "prompt\tchoice1\tchoice2\tlabel\np\tx\ty\t1\n")
    assert "say which: --format tsv" in refusal(path)
    (example,), _ = read_choices(path, ChoiceColumns(format="tsv"))
    assert example == ChoiceExample("p", ("x", "y"), 1, 2)
