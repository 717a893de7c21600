"""Parquet, JSON and Excel files, other delimiters, and the columns of training."""

import csv
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
from openpyxl.worksheet.formula import ArrayFormula
from pyarrow import parquet
from refusals import refuses

from bertsmith.data import excel_files
from bertsmith.data.columns import Columns
from bertsmith.data.examples import ExampleReader
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.source_columns import source_columns
from bertsmith.data.table_writer import table_writer
from bertsmith.data.tables import check_delimiter, check_has_columns
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import BertsmithWarning, CheckpointError, ConfigError, InputError

ROWS = [
    {"id": 7, "text": "a good\nfilm; really", "stars": 5, "share": 0.5},
    {"id": 8, "text": 'an "odd", film', "stars": 1, "share": None},
    {"id": 9, "text": "naïve 電影", "stars": 3, "share": 2.0},
]


SINK = pa.BufferOutputStream()
parquet.write_table(pa.table({"text": ["a"], "label": ["b"]}), SINK)
LATIN_NAMES = SINK.getvalue().to_pybytes().replace(b"label", b"l\xe4bel")


def write_table(path, rows=tuple(ROWS)):
    """Write rows in the format that the name says."""
    names, lines = list(rows[0]), [list(row.values()) for row in rows]
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(list(rows), indent=1))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for cells in [names, *lines]:
            book.active.append(cells)
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=";").writerows([names, *lines])
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.json", "a.jsonl", "a.xlsx", "a.csv"])
def test_all_formats_give_the_same_examples_and_keep_all_columns(tmp_path, name):
    path = write_table(tmp_path / name)
    delimiter = ";" if name == "a.csv" else None
    reader = ExampleReader(path, Columns(label_column="stars", delimiter=delimiter))
    pairs = list(reader.with_rows())
    assert [e.text for e, _ in pairs] == [row["text"] for row in ROWS]
    assert [e.label for e, _ in pairs] == ["5", "1", "3"]
    for (_, kept), row in zip(pairs, ROWS, strict=True):
        values = ["" if value is None else str(value) for value in row.values()]
        assert list(kept.columns) == list(row)
        if name == "a.csv":
            assert list(kept.values) == values
        else:
            assert list(kept.values) == list(row.values())
    types = source_columns(reader, pairs[0][1])
    expected = [str] * 4 if name == "a.csv" else [int, str, int, float]
    if name == "a.parquet":
        expected = [pa.int64(), pa.string(), pa.int64(), pa.float64()]
    assert types == dict(zip(ROWS[0], expected, strict=True))


@pytest.mark.parametrize("name, content, parts", [
    ("a.parquet", b"PAR1 and no table", ["a.parquet: damaged", "Copy"]),
    ("a.parquet", LATIN_NAMES, ["a.parquet: damaged", "Copy"]),
    ("a.xlsx", b"no zip", ["a.xlsx: damaged", ".csv"]),
    ("a.json", b'{"text": ["a"]}', ["a.json: found an object", 'orient="records"']),
    ("a.json", b'[{"text": "a", "label": 1},\n {"text": "b" "label": 2}]', ["a.json:2: not JSON"]),
    ("a.json", b'[{"text": "a", "label": 1}, 3]', ["row 2 of ", "a number"]),
    ("a.json", b'[{"text": "a", "label": 1}, {"text": "b"}]', ["row 2 of ", "no key 'label'"]),
    ("a.csv", b"text;label\na;1\n", ["semicolons", "--delimiter ';'"]),
    ("a.csv", b'"text";"label"\n"a";"1"\n', ["semicolons", "--delimiter ';'"]),
    ("a.csv", b"text\tlabel\na\t1\n", ["tabs", "--delimiter tab"]),
])  # fmt: skip
def test_files_that_are_not_such_tables(tmp_path, name, content, parts):
    (tmp_path / name).write_bytes(content)
    with refuses(InputError, *parts, worded=False):
        ExampleReader(tmp_path / name).read()


def damage_sheet(path, old, new):
    """Replace text in the XML of a workbook's first sheet."""
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    assert old in sheet
    parts["xl/worksheets/sheet1.xml"] = sheet.replace(old, new)
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)


def test_an_encrypted_part_of_an_excel_file_is_damage(tmp_path):
    path = write_table(tmp_path / "a.xlsx")
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # of a part, and of its entry
        for match in re.finditer(mark, bytes(content)):
            content[match.start() + flags] |= 1
    path.write_bytes(content)
    with refuses(InputError, "a.xlsx: damaged", "encrypted", worded=False):
        ExampleReader(path).read()


@pytest.mark.parametrize(
    "old, new", [(b'<row r="3"', b'<row r="99999999"'), (b'left="0.75"', b'left="x"')]
)
def test_a_wrong_number_in_an_excel_file_is_damage(tmp_path, monkeypatch, old, new):
    monkeypatch.setattr(excel_files, "MAX_ROWS_OF_SHEET", 99)
    path = write_table(tmp_path / "a.xlsx")
    damage_sheet(path, old, new)
    with refuses(InputError, "a.xlsx: damaged", worded=False):
        ExampleReader(path, Columns(label_column="stars")).read()


def test_an_empty_cell_is_told_although_the_file_is_damaged_behind_it(tmp_path):
    rows = [{"text": "", "label": "a"}, *[{"text": "b" * 99, "label": "b"}] * 999]
    path = write_table(tmp_path / "a.xlsx", rows)
    damage_sheet(path, b"</sheetData>", b"<")
    with refuses(InputError, "a.xlsx", "'text' is empty"):
        ExampleReader(path).read()


def test_an_excel_file_names_the_row_as_excel_does(tmp_path):
    path = write_table(
        tmp_path / "a.xlsx", [*ROWS, {"id": 1, "text": None, "stars": 2, "share": 0}]
    )
    with refuses(InputError, "row 5 of ", "'text' is empty", worded=False):
        ExampleReader(path, Columns(label_column="stars")).read()


@pytest.mark.parametrize("formula", [
    '=IF(A3="", "bad", "good")',
    ArrayFormula("C3", "=A3&A2"),
], ids=["of a cell", "of an array"])  # fmt: skip
def test_a_formula_without_a_stored_result_is_told_from_an_empty_cell(tmp_path, formula):
    """Programs that write Excel files leave results to the spreadsheet program."""
    book = openpyxl.Workbook()
    for cells in (["text", "stars", "label"], ["a film", 3, "good"], ["a book", 4, formula]):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    text = getattr(formula, "text", formula)
    parts = ("row 3 of ", f"'label' is a formula ({text})", "save it", ".csv")
    with refuses(InputError, *parts):
        ExampleReader(tmp_path / "a.xlsx").read()
    reader = ExampleReader(tmp_path / "a.xlsx", Columns(skip_incomplete=True))
    assert (len(reader.read()), reader.num_skipped) == (1, 1)
    book.active["C3"] = None
    book.save(tmp_path / "a.xlsx")
    with refuses(InputError, "row 3 of ", "'label' is empty"):
        ExampleReader(tmp_path / "a.xlsx").read()


def test_the_error_of_a_formula_is_no_label(tmp_path):
    book = openpyxl.Workbook()
    for cells in (["text", "more", "label"], ["a film", "#REF!", "good"], ["a book", "", "#N/A"]):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    with refuses(InputError, "row 3 of ", "'label' is #N/A", "--skip-incomplete"):
        ExampleReader(tmp_path / "a.xlsx").read()
    reader = ExampleReader(tmp_path / "a.xlsx", Columns(skip_incomplete=True))
    assert [example.label for example in reader.read()] == ["good"]


def test_further_sheets_of_an_excel_file_are_named(tmp_path):
    book = openpyxl.load_workbook(write_table(tmp_path / "a.xlsx"))
    book.active.title = "March"
    for name, cells in (("April", ["text"]), ("May", []), ("June", [None, 3])):
        book.create_sheet(name).append(cells)
    book.save(tmp_path / "b.xlsx")
    with pytest.warns(BertsmithWarning) as caught:
        reader = ExampleReader(tmp_path / "b.xlsx", Columns(label_column="stars"))
        assert len(reader.read()) == len(ROWS)
    (warning,) = caught
    message = str(warning.message)
    assert "b.xlsx: " in message and "'March', is read (others: 'April', 'June')" in message


def test_a_missing_openpyxl_is_told(tmp_path, monkeypatch):
    path = write_table(tmp_path / "a.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with refuses(ConfigError, "pip install 'bertsmith[excel]'"):
        ExampleReader(path).read()


@pytest.mark.parametrize("file_format", ["parquet", "xlsx"])
def test_what_is_read_from_its_end_does_not_come_from_standard_input(file_format):
    with refuses(InputError, "standard input: "):
        ExampleReader(STANDARD_INPUT, Columns(format=file_format)).read()


def test_a_workbook_that_is_too_large_is_called_so_and_not_damaged(tmp_path, monkeypatch):
    path = write_table(tmp_path / "a.xlsx")
    monkeypatch.setattr(excel_files, "MAX_UNPACKED", 10)
    with refuses(InputError, "a.xlsx: takes ", worded=False):  # the size depends on openpyxl
        ExampleReader(path).read()


def test_json_from_standard_input_is_named_so(monkeypatch, tmp_path):
    path = tmp_path / "in"
    for content, place in (('{"text": "a"}', "standard input: "), ("[7,]", "standard input:1: ")):
        path.write_text(content)
        with path.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            with refuses(InputError, place, worded=place.endswith("t: ")):  # else Python's words
                ExampleReader(STANDARD_INPUT, Columns(format="json"), labelled=False).read()


def test_standard_input_that_was_read_before_is_not_just_called_empty(monkeypatch, tmp_path):
    """As by two options that name it: the rows are gone, though there were some."""
    table = tmp_path / "a.csv"
    table.write_text("text,label\ngood,pos\n")
    with table.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        reader = ExampleReader(STANDARD_INPUT, Columns(format="csv"))
        assert len(reader.read()) == 1
        with refuses(InputError, "standard input: nothing in it", "read only once"):
            reader.read()


def test_a_missing_file_is_an_error_and_nothing_else(tmp_path):
    """In development mode, as in Python 3.13, errors of unfinished objects are shown."""
    read = "from bertsmith.data.text_files import iter_lines; from pathlib import Path\n"
    read += "try: next(iter_lines(Path('none.txt')))\nexcept ValueError as error: print(error)"
    command = [sys.executable, "-X", "dev", "-c", read]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("none.txt: cannot be read")
    assert "Exception ignored" not in done.stderr


def test_a_delimiter_is_for_the_files_that_have_one(tmp_path):
    """It is refused only where none of a call's files has separators between columns."""
    table, objects, parquet_file = (
        write_table(tmp_path / name) for name in ("a.csv", "a.json", "a.parquet")
    )
    columns = Columns(label_column="stars", delimiter=";")
    texts = [
        [example.text for example in ExampleReader(file, columns)] for file in (table, objects)
    ]
    assert texts[0] == texts[1] == [row["text"] for row in ROWS]
    check_delimiter(columns, objects, table)
    check_delimiter(columns, objects, ROWS, None, STANDARD_INPUT)
    check_delimiter(Columns(), objects)
    for sources, parts in (
        ([objects, None], ["a.json is read as json,", "--format csv"]),
        ([parquet_file, objects], ["a.parquet is read as parquet and ", "a.json is read as json"]),
        ([ROWS], ["the rows given are objects"]),
    ):
        with refuses(ConfigError, "--delimiter: ", *parts):
            check_delimiter(columns, *sources)


def test_a_callers_limit_of_cells_stays(tmp_path):
    path = write_table(tmp_path / "a.csv")
    before = csv.field_size_limit(1 << 30)
    try:
        assert ExampleReader(path, Columns(label_column="stars", delimiter=";")).read()
        assert csv.field_size_limit() == 1 << 30
    finally:
        csv.field_size_limit(before)


@dataclass(frozen=True)
class OwnColumns:
    """Options of a task of the user, which reads files in its own way."""

    text_column: str | None = None


def test_columns_are_named_only_in_tables(tmp_path):
    lines, table = tmp_path / "a.txt.gz", tmp_path / "a.csv"
    for columns, source in (
        (Columns(text_column="2"), table),
        (Columns(text_column="2", format="csv"), lines),
        (Columns(pair_column="2", delimiter="|"), lines),
        (Columns(header="no", label_column="2"), lines),
        (Columns(text_column="text"), ROWS),
        (OwnColumns("2"), lines),
    ):
        check_has_columns(columns, source)
    with refuses(ConfigError, "--text-column: ", "a.txt.gz is read as txt", "--format tsv"):
        check_has_columns(Columns(text_column="2"), lines)
    with refuses(ConfigError, "--header: ", "a.csv is read as txt"):
        check_has_columns(Columns(header="yes", format="txt"), table)


def test_delimiters_that_are_none(tmp_path):
    path = write_table(tmp_path / "a.csv")
    for delimiter in (";;", '"', "\n", ""):
        with refuses(ConfigError, "--delimiter: found"):
            ExampleReader(path, Columns(delimiter=delimiter)).read()
    (tmp_path / "a.txt").write_text("text|label\na|1\nb|2\n")
    assert len(ExampleReader(tmp_path / "a.txt", Columns(delimiter="|")).read()) == 2
    (tmp_path / "a.tsv").write_text("text\tlabel\na\t1\n")
    for name in ("tab", "\t", "\\t"):
        assert ExampleReader(tmp_path / "a.tsv", Columns(delimiter=name)).read()[0].label == "1"


def test_columns_of_training_come_first_where_the_file_has_them(tmp_path):
    trained = TrainingColumns({"text": ("review",), "label": ("stars",)}, ";")
    kinds = {"labelled": True, "trained": trained}
    (tmp_path / "same.csv").write_text("text;review;label;stars\nno;yes;no;yes\n")
    (example,) = ExampleReader(tmp_path / "same.csv", **kinds).read()
    assert (example.text, example.label) == ("yes", "yes")
    asked = Columns(text_column="text", label_column="label")
    (example,) = ExampleReader(tmp_path / "same.csv", asked, **kinds).read()
    assert (example.text, example.label) == ("no", "no")
    (tmp_path / "other.csv").write_text("text,label\na,1\n")
    (example,) = ExampleReader(tmp_path / "other.csv", **kinds).read()
    assert (example.text, example.label) == ("a", "1")
    (tmp_path / "neither.csv").write_text("words,stars\na,1\n")
    with refuses(InputError, "looks like the text", "'review' as in training", "'words'"):
        ExampleReader(tmp_path / "neither.csv", **kinds).read()


def test_numbers_of_training_serve_a_table_without_a_header(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("5\ta film\n1\ta story\n")
    reader = ExampleReader(path, Columns("2", label_column="1"))
    examples = reader.read()
    trained = TrainingColumns.from_json(json.loads(json.dumps(reader.columns_read().to_json())))
    assert ExampleReader(path, trained=trained).read() == examples
    (tmp_path / "named.tsv").write_text("label\ttext\n5\ta film\n")
    (example,) = ExampleReader(tmp_path / "named.tsv", trained=trained).read()
    assert (example.text, example.row) == ("a film", 2)


def test_columns_that_training_did_not_write():
    for value in (3, {"names": {"text": "review"}}, {"names": {}, "delimiter": 3}):
        with refuses(CheckpointError, "config.json: 'columns'"):
            TrainingColumns.from_json(value)


def test_labels_need_no_texts_where_only_they_are_compared(tmp_path):
    (tmp_path / "a.csv").write_text("label\nb\na\n")
    reader = ExampleReader(tmp_path / "a.csv", needs_text=False)
    assert [example.label for example in reader.read()] == ["b", "a"]
    with refuses(InputError, "looks like the text"):
        ExampleReader(tmp_path / "a.csv").read()
    (tmp_path / "c.csv").write_text("choice1,choice2,label\na,b,0\n")
    (example,) = ChoiceReader(tmp_path / "c.csv", needs_prompt=False).read()
    assert (example.choices, example.label) == (("a", "b"), 0)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.xlsx"])
def test_what_is_written_is_read_again(tmp_path, name):
    path = tmp_path / name
    with table_writer(path, {"text": str, "label": int}) as writer:
        for row in (["=1+1", 1], ['a, "b"\nc\td\x01', 0], ["", 2], ["e\rf", 3]):
            writer.write(row)
    texts = ["=1+1", 'a, "b"\nc\td\x01', "", "e\rf"]
    if name == "a.tsv":
        texts[1], texts[3] = 'a, "b" c d\x01', "e f"
    if name == "a.xlsx":
        texts[1], texts[3] = 'a, "b"\nc\td ', "e\nf"  # XML has one kind of line end
    reader = ExampleReader(path, Columns(label_column="label"), needs_text=False)
    assert [example.text for example in reader] == texts
    assert (writer.note() is None) == (name in ("a.csv", "a.parquet"))


def test_a_parquet_file_keeps_values_of_all_types(tmp_path):
    entries = pa.map_(pa.string(), pa.int32())
    columns = {
        "map": pa.array([[("a", 1), ("b", None)], None], entries),
        "maps": pa.array([[{"of": [("a", 1)]}], []], pa.list_(pa.struct([("of", entries)]))),
        "day": pa.array([0, None], pa.date32()),
        "moment": pa.array([1_000_001, None], pa.timestamp("us", "UTC")),
        "bytes": pa.array([b"\xff", None]),
        "share": pa.array([float("inf"), 0.5]),
    }
    parquet.write_table(pa.table({"text": ["a", "b"], **columns}), tmp_path / "a.parquet")
    reader = ExampleReader(tmp_path / "a.parquet", labelled=False)
    (_, first), (_, second) = reader.with_rows()
    with table_writer(tmp_path / "b.parquet", source_columns(reader, first)) as writer:
        writer.write(first.values)
        writer.write(second.values)
    written = parquet.read_table(tmp_path / "b.parquet")
    assert written.equals(parquet.read_table(tmp_path / "a.parquet"))


@pytest.mark.parametrize(("numbers", "written"), [
    ([2**53 + 1, 7], [2**53 + 1, 7]), ([2**53, 0.5], [2.0**53, 0.5]),
    ([2**53 + 1, 0.5], [str(2**53 + 1), "0.5"]),
])  # fmt: skip
def test_long_numbers_are_written_exactly(tmp_path, numbers, written):
    rows = [{"text": "a", "number": number} for number in numbers]
    reader = ExampleReader(write_table(tmp_path / "a.jsonl", rows), labelled=False)
    (_, first), (_, second) = reader.with_rows()
    with table_writer(tmp_path / "b.parquet", source_columns(reader, first)) as writer:
        writer.write(first.values)
        writer.write(second.values)
    assert parquet.read_table(tmp_path / "b.parquet")["number"].to_pylist() == written


@pytest.mark.parametrize("column", [
    pa.array([0, 10**8], pa.date32()),
    pa.array([0, 10**12], pa.timestamp("s")),
])  # fmt: skip
def test_values_that_python_cannot_hold(tmp_path, column):
    parquet.write_table(pa.table({"text": ["a", "b"], "day": column}), tmp_path / "a.parquet")
    reader = ExampleReader(tmp_path / "a.parquet", labelled=False)
    with refuses(InputError, "a.parquet: column 'day', row 2", worded=False):
        reader.read()


def test_excel_gets_what_it_has_no_numbers_or_dates_for_as_texts(tmp_path):
    values = [
        float("inf"),
        date(1899, 12, 31),
        datetime(2020, 1, 1, tzinfo=UTC),
        date(1900, 3, 1),
    ]
    with table_writer(tmp_path / "a.xlsx", {str(index): Any for index in range(4)}) as writer:
        writer.write(values)
    *texts, day = list(openpyxl.load_workbook(tmp_path / "a.xlsx").active.values)[1]
    assert texts == ["inf", "1899-12-31", "2020-01-01T00:00:00+00:00"]
    assert day == datetime(1900, 3, 1)


def test_texts_with_spaces_stay_in_their_columns_between_spaces(tmp_path):
    with table_writer(tmp_path / "a.tsv", {"text": str, "label": str}, " ") as writer:
        writer.write(["two words", "a"])
    reader = ExampleReader(tmp_path / "a.tsv", Columns(delimiter=" "))
    assert [(example.text, example.label) for example in reader] == [("two_words", "a")]
    assert "underscores" in (writer.note() or "")


@pytest.mark.parametrize(("delimiter", "text", "is_named"), [
    (";", "a; b", True), (";", "a b", False), (None, "a\tb", False),
])  # fmt: skip
def test_a_note_names_the_delimiter_that_a_tsv_file_cannot_hold(
    tmp_path, delimiter, text, is_named
):
    with table_writer(tmp_path / "a.tsv", {"text": str}, delimiter) as writer:
        writer.write([text])
    assert ("';'" in (writer.note() or "")) == is_named
    assert (tmp_path / "a.tsv").read_text() == f"text\n{text.translate({9: 32, 59: 32})}\n"


@pytest.mark.parametrize("name, text, kept", [
    ("a.csv", "a\0b", "a b"),
    ("a.tsv", "a\0b", "a b"),
    ("a.xlsx", "a\r\nb\rc", "a\nb\nc"),
    ("a.csv", "a\r\nb\rc", "a\r\nb\rc"),
])  # fmt: skip
def test_what_is_written_is_read_again_and_changes_are_counted(tmp_path, name, text, kept):
    path = tmp_path / name
    with table_writer(path, {"text": str, "label": str}) as writer:
        writer.write([text, "x"])
        writer.write(["plain", "y"])
    assert [example.text for example in ExampleReader(path).read()] == [kept, "plain"]
    assert writer.num_changed == (text != kept)
