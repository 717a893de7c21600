"""The columns of a source of examples, with the types of their values."""

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


def source_columns(reader: RecordReader[Any], first: SourceRow) -> dict[str, Any]:
    """Return the names of a source's columns, in order, and types as `table_writer` takes them.

    Files of objects and Excel files are read once more for this.

    Args:
        first: a row that was read.

    Raises:
        InputError: objects from standard input, which can be read only once; or a file that cannot
            be read.
    """
    kind, source = reader.file_format, reader.source
    if kind == "parquet":
        assert isinstance(source, Path)
        return {field.name: field.type for field in parquet_schema(source)}
    if kind in ("jsonl", "json"):
        if source == STANDARD_INPUT:
            raise InputError(
                "standard input: it can be read only once, and the columns of all rows must be "
                "known before the first is written. Write the input to a file."
            )
        return _types_of(row for _, row in read_objects(source, kind))
    names = unique_names(first.columns)
    if kind != "xlsx":
        return dict.fromkeys(names, str)
    assert isinstance(source, Path)
    rows = read_rows(source, kind)
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
    return _common({_kind_of(value) for value in values if value is not None})


def _types_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the type of each key's values; of several types, and of nested values, Any."""
    kinds: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row.items():
            kinds_of_column = kinds.setdefault(name, set())
            if value is not None:
                kinds_of_column.add(_kind_of(value))
    return {name: _common(kinds_of_column) for name, kinds_of_column in kinds.items()}


def _kind_of(value: Any) -> Any:
    kind = str if isinstance(value, str) else type(value)
    if kind is int and not -MAX_INTEGER <= value < MAX_INTEGER:
        return Any
    return kind if kind in (str, int, float, bool) else Any


def _common(kinds: set[Any]) -> Any:
    if kinds == {int, float}:
        return float
    if not kinds:
        return str
    return next(iter(kinds)) if len(kinds) == 1 else Any
