"""Tables of examples: every usual shape is read, every broken one is one clear error."""

import csv
import gzip
import io
import json
import lzma
import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.examples import Columns, Example, ExampleReader, stratified_sample
from bertsmith.errors import InputError

GOOD = [("good", None, "1")]
BOTH = [("good", None, "1"), ("bad", None, "0")]


def write(directory, name, content):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_lines(directory, *objects):
    return write(directory, "a.jsonl", "\n".join(map(json.dumps, objects)))


def rows(path, **columns):
    examples = ExampleReader(path, Columns(**columns)).read()
    return [(example.text, example.pair, example.label) for example in examples]


def kept(path, limit=None, **options):
    reader = ExampleReader(path, Columns(skip_incomplete=True), **options)
    return [example.row for example in reader.read(limit)], reader.num_skipped


def refusal(path, **columns):
    with pytest.raises(InputError) as caught:
        ExampleReader(path, Columns(**columns)).read()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


SICK = 'sentence_A\tsentence_B\tjudgment\nA "man\tA boy\tNEUTRAL\n'
SICK_GZ = gzip.compress(SICK.encode(), mtime=0)
SICK_COLUMNS = {
    "text_column": "sentence_A", "pair_column": "sentence_B", "label_column": "judgment",
}  # fmt: skip


@pytest.mark.parametrize(
    "name, content, columns, expected",
    [
        ("a.tsv", "label\tsentence\n1\tgood\n0\tbad\n", {}, BOTH),
        ("a.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\ty\n", {}, [("a b", "c", "y")]),
        *(
            ("a.csv", "id,said,verdict\n7,good,1\n8,bad,0\n", columns, BOTH)
            for columns in (
                {"text_column": "said", "label_column": "Verdict"},
                {"text_column": "2", "label_column": "3", "header": "yes"},
            )
        ),
        (
            "a.tsv", "gj04\t1\t\tgood\ngj04\t0\t*\tbad\n",
            {"text_column": "4", "label_column": "2"}, BOTH,
        ),
        ("a.tsv", "said\tlabel\nlabel\t1\n", {"text_column": "1"}, [("label", None, "1")]),
        ("a.csv", f"text,label\n{'x' * 200_000},1\n", {}, [("x" * 200_000, None, "1")]),
        ("a.csv", 'text,label\n"so\rso",1\n', {}, [("so\rso", None, "1")]),
        ("a.csv.xz", lzma.compress(b"text,label\ngood,1\n"), {}, GOOD),
        ("a.tsv", 'text,label\n"a,b",x\n', {"format": "csv"}, [("a,b", None, "x")]),
        *(
            (name, content, {**SICK_COLUMNS, "format": "tsv"}, [('A "man', "A boy", "NEUTRAL")])
            for name, content in (("SICK", SICK), ("a.txt.gz", SICK_GZ))
        ),
        *(  # harmless oddities: a byte order mark, Windows line ends, blank lines, no final end
            (f"a.{ending}", content.replace(b"\t", border), {}, GOOD)
            for ending, border in (("tsv", b"\t"), ("csv", b","))
            for content in (
                b"\xef\xbb\xbftext\tlabel\ngood\t1\n", b"text\tlabel\r\ngood\t1\r\n",
                b"text\tlabel\n\ngood\t1\n\n", b"text\tlabel\ngood\t1",
            )
        ),
        (
            "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": true}',
            {}, [("a", None, "1"), ("b", None, "true")],
        ),
        ("a.jsonl", '{"text": "a", "pair": "b", "label": "x"}', {}, [("a", "b", "x")]),
    ],
)  # fmt: skip
def test_tables_of_usual_shapes(tmp_path, name, content, columns, expected):
    assert rows(write(tmp_path, name, content), **columns) == expected


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(str.strip)


@settings(max_examples=20)
@given(st.lists(st.tuples(TEXT, st.sampled_from(["a", "b"])), min_size=1, max_size=9))
def test_any_text_survives_a_csv_file(tmp_path_factory, table):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *table])
    path = write(tmp_path_factory.getbasetemp(), "any.csv", buffer.getvalue())
    assert rows(path, header="yes") == [(text, None, label) for text, label in table]


def test_a_header_that_was_overlooked_or_guessed(tmp_path):
    numbered = {"text_column": "1", "label_column": "2"}
    table = write(tmp_path, "a.csv", "said,verdict\n" + "good,pos\nbad,neg\n" * 5)
    assert "--header yes" in refusal(table, **numbered)
    assert len(rows(table, **numbered, header="no")) == 11
    numbers = "".join(f"text,{number / 8}\n" for number in range(11))
    assert len(rows(write(tmp_path, "b.csv", numbers), **numbered)) == 11
    table = write(tmp_path, "a.tsv", "how are you\tquestion\nfine\tstatement\nwhy\tquestion\n")
    assert len(rows(table, **numbered)) == 3
    assert "no column looks like the label" in refusal(table)
    with pytest.raises(InputError, match=r"a\.tsv:3: the text 'question' .* --header yes"):
        list(ExampleReader(table, labelled=False))
    sure = ExampleReader(table, Columns(header="yes"), labelled=False)
    assert [example.text for example in sure] == ["statement", "question"]


def test_lines_of_text(tmp_path):
    path = write(tmp_path, "a.txt", "good, isn't it\nbad\n\n\r\n\n")
    found = [(example.row, example.text) for example in ExampleReader(path, labelled=False)]
    assert found == [(1, "good, isn't it"), (2, "bad")]
    gap = write(tmp_path, "b.txt", "good\n\n\nbad\n\n")
    reader = ExampleReader(gap, Columns(skip_incomplete=True), labelled=False)
    assert ([example.row for example in reader], reader.num_skipped) == ([1, 4], 2)
    for name, content, message in (
        ("b.txt", "good\n\n\nbad\n\n", ":2: 'the line' is empty"),
        ("c.txt", "\n\n", ": no complete rows"),
        ("d.txt", "good\rbad\r", r":1: a carriage return \(CR\) within the line"),
    ):
        with pytest.raises(InputError, match=rf"{name}{message}"):
            list(ExampleReader(write(tmp_path, name, content), labelled=False))


def test_incomplete_rows_are_skipped_on_request_and_counted(tmp_path):
    assert kept(write(tmp_path, "a.csv", "text,label\ngood,1\nbad,\n ,0\n")) == ([2], 2)
    table = write(tmp_path, "a.tsv", "text\tlabel\ngood\t1\nbad\nvery\tbad\t0\ndull\t0\n")
    assert kept(table) == ([2, 5], 2)
    row = {"text": "a", "label": 1}
    assert kept(write_lines(tmp_path, row, {"text": "b"}, {"label": 0}, row)) == ([1, 4], 2)
    path = write_lines(tmp_path, {"text": "a"}, {"id": 7}, row, row)
    assert kept(path) == ([3, 4], 2)
    assert "no column looks like the label. Columns found: 'text'." in refusal(path)
    missing = write_lines(tmp_path, row, {"text": "c", "label": float("nan")})
    assert ":2: 'label' is empty" in refusal(missing)
    assert kept(missing) == ([1], 1)
    assert kept(missing, empty_labels=True) == ([1, 2], 0)
    for path, message in (
        (write(tmp_path, "b.tsv", "text\tlabel\ngood\n"), "no complete rows"),
        (write_lines(tmp_path, {"text": "a"}), "no column looks like the label"),
    ):
        assert message in refusal(path, skip_incomplete=True)


def test_rows_of_one_column_stay_in_their_places(tmp_path):
    for name in ("a.tsv", "a.csv"):
        path = write(tmp_path, name, "text\na\n\nb\n\n\n")
        with pytest.raises(InputError, match=":3: 'text' is empty"):
            list(ExampleReader(path, labelled=False))
        reader = ExampleReader(path, Columns(skip_incomplete=True), labelled=False)
        assert ([example.row for example in reader], reader.num_skipped) == ([2, 4], 1)


def test_a_header_is_no_text_where_columns_are_numbered(tmp_path):
    path = write(tmp_path, "a.csv", "id,Text,label\n1,hello,a\n2,world,b\n")
    with pytest.raises(InputError, match=":1: the text of this first row, 'Text', is a usual name"):
        list(ExampleReader(path, Columns(text_column="2"), labelled=False))
    for header, found in (("yes", ["hello", "world"]), ("no", ["Text", "hello", "world"])):
        reader = ExampleReader(path, Columns(text_column="2", header=header), labelled=False)
        assert [example.text for example in reader] == found


def test_several_labels_in_other_forms_are_refused(tmp_path):
    for name, content, message in (
        ("a.jsonl", '{"text": "a", "labels": [1, 0, 1]}\n', ":1: the label is 1 and 0 for each"),
        ("a.csv", "text,labels\na,\"['x', 'y']\"\n", ":2: the label is a list written as text"),
    ):
        with pytest.raises(InputError, match=message):
            list(ExampleReader(write(tmp_path, name, content), empty_labels=True))


def test_a_pipe_is_told_from_a_missing_file(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert refusal(tmp_path / "a.csv").startswith(": a pipe, which can be read once only")


def test_keys_that_the_first_rows_lack(tmp_path):
    path = write_lines(tmp_path, {"text": "a", "rating": 5}, {"text": "b", "label": 1, "rating": 4})
    found = refusal(path)
    assert ":2: has 'label', which the rows before lack: there, 'rating' was taken" in found
    assert "--label-column" in found
    assert [label for *_, label in rows(path, label_column="rating")] == ["5", "4"]
    row = {"text": "a", "label": 1}
    path = write_lines(tmp_path, row, {**row, "text_pair": "c"})
    assert ":2: has a second text ('text_pair')" in refusal(path)
    assert len(rows(path, text_column="text")) == 2


JSON_ROW = '{"text": "a", "label": 1}\n'


@pytest.mark.parametrize("name, content, parts", [
    ("a.csv", "text,label\ngood,1\nbad,\n", [":3: 'label' is empty", "--skip-incomplete"]),
    ("a.tsv", "text\tlabel\n \t1\n", [":2: 'text' is empty"]),
    ("a.tsv", "text\tlabel\ngood\t1\textra\n", [":2: found 3 columns", "has 2", "tab"]),
    ("a.csv", "text,label\nwell, good,1\n", [":2: found 3 columns", "double quotes"]),
    ("a.csv", 'text,label\ngood,1\n"never closed,1\n', [":3: not valid CSV"]),
    ("a.csv", "words,label\ngood,1\n", ["no column looks like the text", "'words', 'label'"]),
    ("a.csv", "text,text,label\na,b,1\n", ["columns are called 'text'", "Give the number"]),
    ("a.tsv", "text\tLabel\tLABEL\na\t1\t0\n", ["called 'label'", "--label-column"]),
    ("a.csv", "text,label\rgood,1\r", [":1: a carriage return (CR) within the line", "LF"]),
    ("a.jsonl", JSON_ROW + '["b", 2]\n', [":2: found a list", "object"]),
    ("a.jsonl", JSON_ROW + '{"text": "b"}\n', [":2: no key 'label'", "--skip-incomplete"]),
    ("a.jsonl", JSON_ROW + '{"text": \n', [":2: not JSON", "column"]),
    ("a.jsonl", '{"text": "a", "label": 1, "label": 0}', [":1: not JSON (the key 'label'"]),
    ("a.jsonl", '{"text": ["a"], "label": 1}\n', [":1: 'text' is a list", "a string"]),
    ("a.jsonl", '{"text": "a", "label": ' + "7" * 5000 + "}", [":1: not JSON (Exceeds the"]),
    ("a.jsonl", '{"text": ' + "[" * 200_000, [":1: not JSON (lists or objects too deep)"]),
    ("a.jsonl", r'{"\ud83d": 1, "\ud83e": 2}', [":1: not JSON (two keys differ only in half"]),
    ("a.xlsx", "text,label\ngood,1\n", ["'.xlsx'", ".csv, .tsv or .jsonl"]),
    ("SICK", SICK, ["say which: --format tsv"]),
    ("a.txt", "good\n", ["no labels", ".csv, .tsv or .jsonl"]), ("a.csv", b"", ["nothing in it"]),
    ("a.csv", bytes(range(256)) * 8, ["NUL byte"]),
    ("a.csv", SICK_GZ, ["gzip data, which should be named .gz"]),
    ("a.csv.gz", "text,label\ngood,1\n", ["not .gz data", "correct its name"]),
    ("a.csv", "text,label\ngood,1\n".encode("utf-16"), ["UTF-16", "iconv -f UTF-16 -t UTF-8"]),
    ("a.csv", "text,label\ncafé,1\n".encode("latin-1"), ["byte 14 is 0xe9"]),
])  # fmt: skip
def test_bad_tables_are_one_clear_error(tmp_path, name, content, parts):
    message = refusal(write(tmp_path, name, content))
    for part in parts:
        assert part in message


def test_stratified_sample_keeps_shares_and_every_label():
    labels = "a" * 90 + "b" * 9 + "c"
    examples = [Example("t", label=label, row=row) for row, label in enumerate(labels)]
    sample = stratified_sample(examples, 20, seed=1)
    assert Counter(example.label for example in sample) == {"a": 17, "b": 2, "c": 1}
    assert sample == sorted(sample, key=lambda example: example.row)
    assert sample == stratified_sample(examples, 20, seed=1)
    assert sample != stratified_sample(examples, 20, seed=2)
    assert stratified_sample(examples, 500, seed=1) == examples


PAIR = "sentence1\tsentence2\tlabel\na\tb\t0\n"
ONE = "text,label\ngood,1\n"


@pytest.mark.parametrize("name, content, columns, pairs, message", [
    ("a.csv", ONE, {}, True, "no column looks like the second text.* --pair-column"),
    ("a.tsv", PAIR, {}, False, "two texts in each row, 'sentence1' and 'sentence2'"),
    ("a.csv", "text;label\nx\n", {}, None, r"those between semicolons\? .* commas\."),
    ("a.csv", "text\tlabel\nx\n", {}, None, r"those between tabs\? .* commas\."),
    ("a.tsv", "text,label\nx\n", {}, None, r"those between commas\? In a .tsv .* tabs\."),
    ("a.csv", '"text"|"label"\n', {}, None, r"not valid .* those between bars\? .* commas\."),
    ("a.csv", 'text,label\n"a";"b"\n', {}, None, r":2: not valid .* is written twice\.$"),
    ("a.csv", '"Great film, loved it"\n', {}, None, r"Name it with --text-column \(.*\)\.$"),
    ("a.csv", ONE, {"text_column": "said"}, None, "no column 'said'. Columns found: 'text'"),
    ("a.csv", "Said,said ,label\na,b,1\n", {"text_column": "SAID"}, None, "are called 'SAID'"),
    ("b.csv", "good,1\n", {"text_column": "1", "label_column": "3"}, None, "from 1 to 2"),
])  # fmt: skip
def test_columns_that_do_not_fit(tmp_path, name, content, columns, pairs, message):
    with pytest.raises(InputError, match=message):
        list(ExampleReader(write(tmp_path, name, content), Columns(**columns), pairs=pairs))


def test_a_pair_is_read_where_its_columns_are_named(tmp_path):
    path = write(tmp_path, "a.tsv", PAIR)
    for columns, expected in (
        ({"text_column": "sentence1"}, ("a", None)),
        ({"pair_column": "sentence2"}, ("a", "b")),
    ):
        (example,) = ExampleReader(path, Columns(**columns), pairs=False)
        assert example.content == expected
