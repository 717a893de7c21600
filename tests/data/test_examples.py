"""Tables of examples: every usual shape is read, every broken one is one clear error."""

import bz2
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
from refusals import refuses

from bertsmith.data.column_choice import ColumnChoice
from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import Columns
from bertsmith.data.examples import Example, ExampleReader
from bertsmith.data.sampling import stratified_sample
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import InputError, as_flags

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


def check_refusal(path, *parts, worded=True, **columns):
    with refuses(InputError, *parts, worded=worded) as caught:
        ExampleReader(path, Columns(**columns)).read()
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, content, columns, expected",
    [
        ("a.tsv", "label\tsentence\n1\tgood\n0\tbad\n", {}, BOTH),
        ("a.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\ty\n", {}, [("a b", "c", "y")]),
        (
            "a.csv", "id,said,verdict\n7,good,1\n8,bad,0\n",
            {"text_column": "said", "label_column": "Verdict"}, BOTH,
        ),
        (
            "a.tsv", "gj04\t1\t\tgood\ngj04\t0\t*\tbad\n",
            {"text_column": "4", "label_column": "2"}, BOTH,
        ),
        ("a.csv", f"text,label\n{'x' * 200_000},1\n", {}, [("x" * 200_000, None, "1")]),
        ("a.csv", 'text,label\n"so\rso",1\n', {}, [("so\rso", None, "1")]),
        ("a.csv.xz", lzma.compress(b"text,label\ngood,1\n"), {}, GOOD),
        ("a.txt.gz", gzip.compress(b"text\tlabel\ngood\t1\n", mtime=0), {"format": "tsv"}, GOOD),
        *(  # a byte order mark, Windows line ends, blank lines, no final end
            (f"a.{ending}", f"\ufefftext{border}label\r\n\r\ngood{border}1", {}, GOOD)
            for ending, border in (("tsv", "\t"), ("csv", ","))
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
    check_refusal(table, "a.csv:1:", "'verdict'", "--header yes", "--header no", **numbered)
    assert len(rows(table, **numbered, header="no")) == 11
    numbers = "".join(f"text,{number / 8}\n" for number in range(11))
    assert len(rows(write(tmp_path, "b.csv", numbers), **numbered)) == 11
    table = write(tmp_path, "a.tsv", "how are you\tquestion\nfine\tstatement\nwhy\tquestion\n")
    assert len(rows(table, **numbered)) == 3
    check_refusal(table, "a.tsv:", "'how are you', 'question'", "--label-column")
    with refuses(InputError, "a.tsv:3:", "'question'", "--header yes", "--text-column N"):
        list(ExampleReader(table, labelled=False))
    sure = ExampleReader(table, Columns(header="yes"), labelled=False)
    assert [example.text for example in sure] == ["statement", "question"]


def test_a_header_that_stands_again_is_no_example(tmp_path):
    rest = "good,pos\nbad,neg\n"
    path = write(tmp_path, "a.csv", f"text,label\n{rest}text,label\n{rest}")
    for named in ({}, {"header": "yes"}, {"text_column": "text"}, {"label_column": "2"}):
        check_refusal(path, "a.csv:4:", "'text' and 'label'", "Remove", **named)
    assert len(rows(path, header="no", text_column="1", label_column="2")) == 6
    assert len(rows(path, skip_incomplete=True)) == 4


def test_a_line_for_excel_alone_is_no_header(tmp_path):
    path = write(tmp_path, "a.csv", "sep=;\ntext;label\ngood;pos\n")
    check_refusal(path, "a.csv:", "Remove", "'sep=;'", "--delimiter")
    check_refusal(path, "a.csv:", "Remove", "'sep='", delimiter=";")


def test_lines_of_text(tmp_path):
    path = write(tmp_path, "a.txt", "good, isn't it\nbad\n\n\r\n\n")
    found = [(example.row, example.text) for example in ExampleReader(path, labelled=False)]
    assert found == [(1, "good, isn't it"), (2, "bad")]
    gap = write(tmp_path, "b.txt", "good\n\n\nbad\n\n")
    reader = ExampleReader(gap, Columns(skip_incomplete=True), labelled=False)
    assert ([example.row for example in reader], reader.num_skipped) == ([1, 4], 2)
    with refuses(InputError, "b.txt:2:", "'text' is empty", "--skip-incomplete"):
        list(ExampleReader(gap, labelled=False))


def test_incomplete_rows_are_skipped_on_request_and_counted(tmp_path):
    assert kept(write(tmp_path, "a.csv", "text,label\ngood,1\nbad,\n ,0\n")) == ([2], 2)
    table = write(tmp_path, "a.tsv", "text\tlabel\ngood\t1\nbad\nvery\tbad\t0\ndull\t0\n")
    assert kept(table) == ([2, 5], 2)
    row = {"text": "a", "label": 1}
    path = write_lines(tmp_path, {"text": "a"}, {"id": 7}, row, {"text": "b"}, row)
    assert kept(path) == ([3, 5], 3)
    check_refusal(path, "a.jsonl:", "'text'", "--label-column")
    missing = write_lines(tmp_path, row, {"text": "c", "label": float("nan")})
    check_refusal(missing, ":2:", "'label'")
    assert kept(missing, is_multi_label=True) == ([1, 2], 0)
    check_refusal(write(tmp_path, "b.tsv", "text\tlabel\ngood\n"), "b.tsv:", skip_incomplete=True)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_rows_of_one_column_stay_in_their_lines(tmp_path, name):
    path = write(tmp_path, name, "text\na\n\nb\n\n\n")
    with refuses(InputError, f"{name}:3:", "'text'", "--skip-incomplete"):
        list(ExampleReader(path, labelled=False))
    reader = ExampleReader(path, Columns(skip_incomplete=True), labelled=False)
    assert ([example.row for example in reader], reader.num_skipped) == ([2, 4], 1)


def test_a_header_is_no_text_where_columns_are_numbered(tmp_path):
    path = write(tmp_path, "a.csv", "id,Text,label\n1,hello,a\n2,world,b\n")
    with refuses(InputError, "a.csv:1:", "'Text'", "--header yes", "--header no"):
        list(ExampleReader(path, Columns(text_column="2"), labelled=False))
    for header, found in (("yes", ["hello", "world"]), ("no", ["Text", "hello", "world"])):
        reader = ExampleReader(path, Columns(text_column="2", header=header), labelled=False)
        assert [example.text for example in reader] == found


def test_several_labels_in_other_forms_are_refused(tmp_path):
    for name, content, parts in (
        ("a.jsonl", '{"text": "a", "labels": [1, 0, 1]}\n', ["a.jsonl:1:", "1 and 0"]),
        ("a.csv", "text,labels\na,\"['x', 'y']\"\n", ["a.csv:2:", "sport,news", ".jsonl"]),
    ):
        with refuses(InputError, *parts):
            list(ExampleReader(write(tmp_path, name, content), is_multi_label=True))


def test_a_pipe_is_told_from_a_missing_file(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    check_refusal(tmp_path / "a.csv", "a pipe")


def test_a_choice_of_columns_that_fails_changes_nothing(tmp_path):
    """Of the columns, the text is there, and the label is not."""
    specs = [
        ColumnSpec("text", "text_column", None, ("text", "said")),
        ColumnSpec("label", "label_column", None, ("label",)),
    ]
    path = tmp_path / "a.csv"
    choice = ColumnChoice(path, "auto", lambda names: specs, TrainingColumns())
    with refuses(InputError, "a.csv: ", "--label-column"):
        choice.choose(["text", "kind"], "csv", by_number=False)
    assert choice.names == {}
    assert choice.choose(["said", "label"], "csv", by_number=False) == {"text": [0], "label": [1]}
    chosen = dict(choice.names)
    assert chosen == {"text": ("said",), "label": ("label",)}
    with refuses(InputError, "a.csv: ", "--label-column"):
        choice.choose_in_first_row(["text", "kind"], "csv")
    assert choice.names == chosen and not choice.is_numbered_as_trained


def test_numbers_of_training_that_do_not_fit_are_not_kept(tmp_path):
    """A table of one column lacks the second one, which training read by its number."""
    path = tmp_path / "a.csv"
    trained = TrainingColumns({"text": ("column 1",), "label": ("column 2",)})
    reader = ExampleReader(path, trained=trained)
    path.write_text("good film\nbad film\n")
    with refuses(InputError, "a.csv: ", "--label-column"):
        reader.read()
    assert not reader.names and reader.has_header
    path.write_text("good film,x\nbad film,y\n")
    for _ in range(2):
        assert [example.label for example in reader] == ["x", "y"]
        assert reader.names == {"text": ("column 1",), "label": ("column 2",)}


def test_keys_that_the_first_rows_lack(tmp_path):
    path = write_lines(tmp_path, {"text": "a", "rating": 5}, {"text": "b", "label": 1, "rating": 4})
    check_refusal(path, ":2:", "'label'", "'rating'", "--label-column")
    assert [label for *_, label in rows(path, label_column="rating")] == ["5", "4"]
    row = {"text": "a", "label": 1}
    path = write_lines(tmp_path, row, {**row, "text_pair": "c"})
    check_refusal(path, ":2:", "'text_pair'", "--text-column")
    assert len(rows(path, text_column="text")) == 2


JSON_ROW = '{"text": "a", "label": 1}\n'


@pytest.mark.parametrize("name, content, parts", [
    ("a.csv", "text,label\ngood,1\nbad,\n", [":3:", "'label'", "--skip-incomplete"]),
    ("a.tsv", "text\tlabel\ngood\t1\textra\n", [":2:", "found 3", "row 1 has 2", "tab"]),
    ("a.csv", "text,label\nwell, good,1\n", [":2:", "found 3", "row 1 has 2", "double quotes"]),
    ("a.csv", "text,text,label\na,b,1\n", ["'text', 'text', 'label'", "--text-column"]),
    ("a.csv", "text,label\rgood,1\r", [":1:", "CR", "LF"]),
    ("a.jsonl", JSON_ROW + '["b", 2]\n', [":2:", "a list", "object"]),
    ("a.jsonl", JSON_ROW + '{"text": "b"}\n', [":2:", "'label'", "'text'", "--skip-incomplete"]),
    ("a.jsonl", '{"text": ["a"], "label": 1}\n', [":1:", "'text'", "a list", "a string"]),
    ("a.xls", "text,label\ngood,1\n", ["ends in .xls", ".parquet or .xlsx", "Save as"]),
    ("SICK", "text\tlabel\ngood\t1\n", ["has no ending", "--format tsv"]),
    ("a.txt", "good\n", ["a.txt:", ".csv, .tsv or .jsonl"]), ("a.csv", b"", ["a.csv:"]),
    ("a.csv", bytes(range(256)) * 8, ["NUL", "byte 0"]),
    ("a.csv", gzip.compress(b"text", mtime=0), ["gzip", ".gz"]),
    ("a.csv", "text,label\ngood,1\n".encode("utf-16"), ["UTF-16", "iconv -f UTF-16 -t UTF-8"]),
    ("a.csv", "text,label\ncafé,1\n".encode("latin-1"), ["byte 14", "0xe9", "-f WINDOWS-1252"]),
    ("b.csv", "text,label\nGröße über,1\n".encode("latin-1"), ["0xf6", "like Windows-1252"]),
    ("a.csv", "text,label\nI don’t,1\n".encode("cp1252"), ["0x92", "like Windows-1252"]),
    ("c.csv", "text,label\n很好看,1\n".encode("gb18030"), ["GB18030", "or -f WINDOWS-1252"]),
    ("d.csv", "text,label\nBERT模型good,1\n".encode("gbk"), ["GB18030", "or -f WINDOWS-1252"]),
    ("a.csv", bz2.compress(b"text,label\ngood,1\n"), ["bzip2", "bunzip2"]),
    ("a.csv.bz2", b"BZh", ["not read (.bz2)", "bunzip2 -k", ".gz, .xz or .zst"]),
    ("a.zip", b"PK", ["not read (.zip)", "unzip"]),
    ("a.7z", b"7z", ["not read (.7z)", "7z x"]),
    ("a.rar", b"Rar!", ["not read (.rar)", "unrar x"]),
    ("a.tar.gz", b"", ["not read (.tar)", "tar -xf"]),
])  # fmt: skip
def test_bad_tables_are_one_clear_error(tmp_path, name, content, parts):
    check_refusal(write(tmp_path, name, content), *parts)


def test_bad_tables_with_the_reason_in_words_of_python(tmp_path):
    for name, content, *parts in (
        ("a.csv", 'text,label\ngood,1\n"never closed,1\n', ":3: not valid CSV"),
        ("a.jsonl", JSON_ROW + '{"text": \n', ":2: not JSON", "column 10"),
        ("a.csv.gz", "text,label\ngood,1\n", "not .gz data", "correct its name"),
    ):
        check_refusal(write(tmp_path, name, content), *parts, worded=False)


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


@pytest.mark.parametrize("name, content, columns, pairs, parts", [
    ("a.csv", ONE, {}, True, ["'text', 'label'", "--pair-column"]),
    ("a.tsv", PAIR, {}, False, ["'sentence1' and 'sentence2'", "--text-column", "--pair-column"]),
    ("a.csv", "text;label\nx\n", {}, None, ["'text;label'", "semicolons", ".csv", "commas"]),
    ("a.tsv", "text,label\nx\n", {}, None, ["'text,label'", "commas", ".tsv", "tabs"]),
    ("a.csv", '"Great film, loved it"\n', {}, None, ["'Great film, loved it'", "--text-column"]),
    ("a.csv", ONE, {"text_column": "said"}, None, ["'said'", "'text', 'label'", "--text-column"]),
    ("b.csv", "good,1\n", {"text_column": "1", "label_column": "3"}, None, ["'3'", "1 to 2"]),
])  # fmt: skip
def test_columns_that_do_not_fit(tmp_path, name, content, columns, pairs, parts):
    with refuses(InputError, f"{name}:", *parts):
        list(ExampleReader(write(tmp_path, name, content), Columns(**columns), pairs=pairs))


def test_a_pair_is_read_where_its_columns_are_named(tmp_path):
    path = write(tmp_path, "a.tsv", PAIR)
    for columns, expected in (
        ({"text_column": "sentence1"}, ("a", None)),
        ({"pair_column": "sentence2"}, ("a", "b")),
    ):
        (example,) = ExampleReader(path, Columns(**columns), pairs=False)
        assert example.content == expected


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (2, 2), (9, 3)])
def test_examples_of_a_file_are_counted_up_to_a_limit(tmp_path, limit, count):
    (tmp_path / "a.csv").write_text("text,label\ngood,1\ndull,0\nfine,1\n")
    assert ExampleReader(tmp_path / "a.csv").count(limit) == count


@pytest.mark.parametrize("name", ["in.text", "texts"])
def test_a_file_of_texts_by_another_name_is_told_the_format_of_texts(name, tmp_path):
    (tmp_path / name).write_text("good\nbad\n")
    with refuses(InputError, name, "allowed are .txt, .csv", "--format txt"):
        ExampleReader(tmp_path / name, labelled=False).read()
    for needs_more in ({"labelled": True}, {"labelled": False, "pairs": True}):
        with pytest.raises(InputError) as caught:
            ExampleReader(tmp_path / name, **needs_more).read()
        assert "--format tsv" in as_flags(caught.value.message)
        assert "txt" not in caught.value.message
    read = ExampleReader(tmp_path / name, Columns(format="txt"), labelled=False).read()
    assert [example.text for example in read] == ["good", "bad"]
