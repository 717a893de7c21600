"""Find the columns of a source of examples and their types, to write them beside predictions."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bertsmith.data.objects import read_objects
from bertsmith.data.parquet_files import parquet_schema
from bertsmith.data.records import RecordReader, SourceRow
from bertsmith.data.tables import read_rows
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import InputError

MAX_INTEGER = 1 << 63
"""Whole numbers from `-MAX_INTEGER` to below `MAX_INTEGER` fit into 64 bits."""
MAX_FLOAT_INTEGER = 1 << 53
"""Whole numbers up to this one are exact as float64. pyarrow refuses larger ones in a column of
float64."""
_LONG_INTEGER = "long integer"
"""Kind of a whole number beyond `MAX_FLOAT_INTEGER`."""


def source_columns(reader: RecordReader[Any], first: SourceRow) -> dict[str, Any]:
    """Return the names of a source's columns, in order, with their types.

    The types are those that `table_writer` takes: str, int, float, bool, Any (values of several
    types), or of a Parquet file pyarrow's own.

    Files of objects and Excel files are read once more for this.

    Args:
        first: a row that was read, which names the columns of a table.

    Raises:
        InputError: objects from standard input, which can be read only once; or a file that cannot
            be read.
    """
    file_format, source = reader.file_format, reader.source
    if file_format == "parquet":
        assert isinstance(source, Path)
        return {field.name: field.type for field in parquet_schema(source)}
    if file_format in ("jsonl", "json"):
        if source == STANDARD_INPUT:
            raise InputError(
                "standard input: it can be read only once, and the columns of all rows must be "
                "known before the first is written. Write the input to a file."
            )
        return _types_of(row for _, row in read_objects(source, file_format))
    names = unique_names(first.columns)
    if file_format != "xlsx":
        return dict.fromkeys(names, str)
    assert isinstance(source, Path)
    rows = read_rows(source, file_format)
    if reader.has_header:
        next(rows)
    types = _types_of(dict(zip(names, cells, strict=False)) for _, cells in rows)
    return {name: types.get(name, str) for name in names}


def unique_names(names: Iterable[str]) -> list[str]:
    """Number repeated names: `text`, `text_2`."""
    unique: list[str] = []
    for name in names:
        candidate = name
        number = 1
        while candidate in unique:
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique


def type_of_column(values: Iterable[Any]) -> Any:
    """Return the type of a column that holds values of any kind, as `table_writer` takes it.

    >>> type_of_column([1, None, 2.5]), type_of_column(["a", 1])
    (<class 'float'>, typing.Any)
    """
    return _common_type({_kind_of(value) for value in values if value is not None})


def _types_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the type of each key's values; Any for values of several types or nested values."""
    kinds: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row.items():
            kinds_of_column = kinds.setdefault(name, set())
            if value is not None:
                kinds_of_column.add(_kind_of(value))
    return {name: _common_type(kinds_of_column) for name, kinds_of_column in kinds.items()}


def _kind_of(value: Any) -> Any:
    """Return the kind of a value: its type if it is str, int, float or bool, else Any.

    The kind of a whole number is `_LONG_INTEGER` beyond `MAX_FLOAT_INTEGER`, and Any beyond 64
    bits.
    """
    kind = str if isinstance(value, str) else type(value)
    if kind is int and not -MAX_INTEGER <= value < MAX_INTEGER:
        return Any
    if kind is int and abs(value) > MAX_FLOAT_INTEGER:
        return _LONG_INTEGER
    return kind if kind in (str, int, float, bool) else Any


def _common_type(kinds: set[Any]) -> Any:
    """Return the type of a column that holds values of these kinds."""
    if not kinds:
        return str
    if kinds <= {int, _LONG_INTEGER}:
        return int
    if kinds == {int, float}:  # not with long integers, which float64 may change
        return float
    return next(iter(kinds)) if len(kinds) == 1 else Any
