"""Rows in memory become the examples that a file of them would, with the same checks."""

import json
from decimal import Decimal
from math import nan

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from refusals import refuses

from bertsmith.data.columns import Columns
from bertsmith.data.examples import ExampleReader
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.sentence_pairs import RelatedReader
from bertsmith.data.squad import QuestionReader
from bertsmith.data.table_rows import TableRows
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import InputError

PAIR = {"text": "a", "text_pair": "b", "label": 1}
CHOICE = {"prompt": "p", "choices": ["a", "b"], "label": "B"}
ANSWERS = {"text": ["Ada"], "answer_start": [0]}
QUESTION = {"id": "q", "question": "Who?", "context": "Ada flew.", "answers": ANSWERS}
READERS = {
    "texts": (ExampleReader, [PAIR, PAIR | {"label": True}], PAIR | {"text": ["a"]}),
    "label sets": (
        lambda source: ExampleReader(source, is_multi_label=True),
        [{"text": "a", "label": ["x", "y"]}, {"text": "b", "label": []}],
        {"text": "a"},
    ),
    "choices": (ChoiceReader, [CHOICE, CHOICE], CHOICE | {"label": "C"}),
    "triples": (RelatedReader, [{"query": "a", "pos": "b", "neg": ["c"]}], {"query": "a"}),
    "questions": (QuestionReader, [QUESTION], {"question": "Who?", "context": 7}),
    "words": (
        TaggedReader,
        [{"tokens": ["EU"], "ner_tags": [3]}, {"tokens": [], "ner_tags": []}],
        {"tokens": ["EU"], "ner_tags": []},
    ),
}


@pytest.mark.parametrize("task", READERS)
def test_rows_are_read_as_a_file_of_them(tmp_path, task):
    read, rows, broken = READERS[task]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    reader = read(rows)
    assert list(reader) == list(reader)
    if task != "questions":  # whose places are called otherwise
        assert list(reader) == list(read(path))
    assert [example.row for example in reader] == list(range(1, len(rows) + 1))
    with refuses(InputError, f"row {len(rows) + 1} of the rows given:"):
        list(read([*rows, broken]))
    with refuses(InputError, "row 1 of the rows given:", "a string", "a mapping"):
        list(read(["text"]))
    with refuses(InputError, "the rows given:"):
        list(read([]))


@pytest.mark.parametrize("name", ["text_pair", "pair"])
def test_a_second_text_in_memory_is_not_dropped_for_a_model_of_single_texts(name, tmp_path):
    rows = [{"text": "a", name: "b", "label": "x"}]
    how = {"pairs": False, "trained": TrainingColumns({"text": ("text",), "label": ("label",)})}
    with refuses(InputError, f"'text' and '{name}'", "--text-column", "--pair-column"):
        list(ExampleReader(rows, **how))
    (example,) = ExampleReader(rows, Columns(text_column="text"), **how)
    assert (example.text, example.pair) == ("a", None)
    (example,) = ExampleReader([{"text": "a", "label": "x", "note": "b"}], **how)
    assert example.pair is None
    path = tmp_path / "a.jsonl"  # a table may hold more than what is read
    path.write_text(json.dumps(rows[0]))
    assert [example.pair for example in ExampleReader(path, **how)] == [None]


@pytest.mark.parametrize("form", ["list", "pandas", "polars", "pyarrow", "parquet"])
def test_decimals_are_numbers(form, tmp_path):
    """As databases give them."""
    values = [Decimal("3.50"), Decimal("-0.25"), Decimal("NaN") if form == "list" else None]
    table = pyarrow.table({"text": ["a", "b", "c"], "label": [*values[:2], None]})
    assert pyarrow.types.is_decimal(table["label"].type)
    source = {
        "list": [{"text": "a", "label": value} for value in values],
        "pandas": TableRows(pandas.DataFrame({"text": ["a", "b", "c"], "label": values})),
        "polars": TableRows(polars.from_arrow(table)),
        "pyarrow": TableRows(table),
        "parquet": tmp_path / "a.parquet",
    }[form]
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    reader = ExampleReader(source, Columns(skip_incomplete=True))
    assert [float(example.label) for example in reader] == [3.5, -0.25]
    assert reader.num_skipped == 1


@pytest.mark.parametrize("form", ["rows", "a.jsonl", "a.json"])
@pytest.mark.parametrize("kind", ["text", "texts with labels", "words", "entities"])
def test_a_label_with_half_an_emoji_is_refused(tmp_path, form, kind):
    """Of two such labels one would be made, as both read U+FFFD; texts are read so."""
    read, make_row = {
        "text": (ExampleReader, lambda label: {"text": "a\udfff", "label": label}),
        "texts with labels": (
            lambda source: ExampleReader(source, Columns(label_column="tags"), is_multi_label=True),
            lambda label: {"text": "a\udfff", "tags": ["x", label]},
        ),
        "words": (
            TaggedReader,
            lambda label: {"words": ["a\udfff", "b"], "labels": ["O", f"B-{label}"]},
        ),
        "entities": (
            TaggedReader,
            lambda label: {
                "text": "a\udfff b",
                "entities": [{"start": 0, "end": 1, "label": label}],
            },
        ),
    }[kind]
    for label in ("g\ufffd", "g\ud83d"):
        rows = [make_row("good"), make_row(label)]
        source = rows
        if form != "rows":
            source = tmp_path / form
            lines = list(map(json.dumps, rows))
            source.write_text("\n".join(lines) if form == "a.jsonl" else f"[{','.join(lines)}]")
        if label == "g\ufffd":
            assert len(list(read(source))) == 2
            continue
        row = "a.jsonl:2: " if form == "a.jsonl" else "row 2 of "
        with refuses(InputError, row, "g\\ud83d", "half of a surrogate pair", "another name"):
            list(read(source))


def test_what_no_json_holds_is_refused_with_its_row():
    nested = "a"
    for _ in range(10_000):
        nested = [nested]
    for value in (nested, dict.fromkeys(["\ud83d", "\ud83e"], 1), {7: 1, "7": 1}):
        with refuses(InputError, "row 2 of the rows given: not like JSON ("):
            list(ExampleReader([PAIR, PAIR | {"more": value}]))


def test_a_stream_of_datasets_is_counted_by_reading_it():
    stream = datasets.Dataset.from_dict({"text": ["a", "b", "c"]}).to_iterable_dataset()
    assert TableRows(stream).num_rows == 3
    assert [row["text"] for row in TableRows(stream)] == ["a", "b", "c"]


@pytest.mark.parametrize("read", [list, lambda table: table.num_rows])
def test_a_column_that_is_no_list_is_named(read):
    with refuses(InputError, "text: found str. Give a list."):
        read(TableRows({"label": ["x"], "text": "a b c"}))


def test_columns_that_are_iterators_are_read_more_than_once():
    table = TableRows({"text": map(str, "ab"), "label": iter("xy")})
    assert table.num_rows == 2
    for _ in range(2):
        assert list(table) == [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]


@pytest.mark.parametrize("missing", [pandas.NA, pandas.NaT, nan, None])
def test_missing_values_of_pandas_are_missing_outside_of_its_tables(missing):
    table = {"text": pandas.Series(["a", missing], dtype=object), "label": [1, 2]}
    for source in (TableRows(table), [PAIR, PAIR | {"label": missing}]):
        reader = ExampleReader(source, Columns(skip_incomplete=True))
        assert (len(list(reader)), reader.num_skipped) == (1, 1)


def test_values_as_tables_in_memory_have_them():
    rows = [
        {"text": "a\ud83d", "label": np.int64(1), 7: "unused"},
        {"text": np.str_("b"), "label": np.True_, 7: None},
        {"text": "c", "label": nan, 7: None},
    ]
    reader = ExampleReader(iter(rows), Columns(skip_incomplete=True))
    assert [(e.text, e.label) for e in reader] == [("a\ufffd", "1"), ("b", "true")]
    assert reader.num_skipped == 1
    (example,) = ChoiceReader([{"prompt": "p", "choices": np.array(["a", "b"]), "label": 0}])
    assert example.choices == ("a", "b")
    with refuses(InputError, "row 1 of the rows given:", "'text'", "bytes"):
        list(ExampleReader([{"text": b"a", "label": 1}]))
