"""Write tables row by row: csv, tsv, Parquet and Excel files, in bounded memory."""

import importlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from datetime import time as time_of_day
from pathlib import Path
from typing import IO, Any

from bertsmith.data.csv_lines import csv_line
from bertsmith.data.excel_files import MAX_ROWS_OF_SHEET, cell_text, import_openpyxl
from bertsmith.errors import InputError
from bertsmith.system.files import atomic_write

TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".xlsx")
_BATCH_ROWS = 1024
_EXCEL_INTEGERS = 10**15
"""Excel keeps 15 digits of a number; longer whole numbers, such as ids, are written as texts."""
_FIRST_EXCEL_YEAR = 1900
"""Excel shows no dates before this year; they are written as texts."""
_MAX_EXCEL_CHARACTERS = (1 << 15) - 1
"""Largest number of characters in a cell of Excel."""
_NOT_IN_TSV = re.compile("[\0\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_CARRIAGE_RETURN = re.compile("\r\n?")
"""A line break that readers of XML turn into a line feed."""
_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class TableWriter(ABC):
    """Writes the rows of one table.

    Attributes:
        num_changed: number of cells whose text was changed, since the format cannot hold some of
            its characters, or so many of them.
    """

    change = ""
    """The end of a sentence in `note`: what the format cannot hold, and what replaces it."""
    num_changed = 0

    @abstractmethod
    def write(self, values: Sequence[Any]) -> None:
        """Write a row: a value for each column."""

    def close(self) -> None:  # noqa: B027 - most formats have nothing left to write
        """Write the remaining rows."""

    def discard(self) -> None:  # noqa: B027 - most formats have nothing open
        """Close an unfinished table while its file is open.

        Otherwise pyarrow and openpyxl close their writers when these are garbage collected, find
        the file closed, and a traceback is printed.
        """

    def note(self) -> str | None:
        """Return a sentence about the changed cells; None if there are none."""
        cells = "1 cell was" if self.num_changed == 1 else f"{self.num_changed:,} cells were"
        return f"{cells} changed: {self.change}." if self.num_changed else None


@contextmanager
def table_writer(
    path: Path, columns: Mapping[str, Any], delimiter: str | None = None
) -> Iterator[TableWriter]:
    """Write a table to a file, which appears whole or not at all.

    Args:
        path: its name ends in one of `TABLE_ENDINGS`.
        columns: names and types: str, int, float, bool, a type of pyarrow, or Any for values of
            several types, which are text in Parquet.
        delimiter: separator of columns in csv and tsv, instead of the usual one.

    Raises:
        InputError: the file cannot be written.
        ConfigError: it is an Excel file, and openpyxl is not installed.
    """
    ending = path.suffix.lower()
    with atomic_write(path, "wb") as file:
        writer: TableWriter
        if ending == ".parquet":
            writer = ParquetTable(file, columns)
        elif ending == ".xlsx":
            writer = ExcelTable(path, file, list(columns))
        elif ending == ".tsv":
            writer = TsvTable(file, list(columns), delimiter or "\t")
        else:
            writer = CsvTable(file, list(columns), delimiter or ",")
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.discard()
            raise


class CsvTable(TableWriter):
    """Rows as `csv_line` formats them, in UTF-8 without a byte order mark.

    A file with a NUL is binary to most programs, also to bertsmith.
    """

    change = "a text file has no NUL characters, so they became spaces"

    def __init__(self, file: IO[bytes], columns: Sequence[str], delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self.write(columns)

    def write(self, values: Sequence[Any]) -> None:
        self._file.write(csv_line(map(self._cell, values), self._delimiter).encode())

    def _cell(self, value: Any) -> str:
        text = as_cell(value)
        self.num_changed += "\0" in text
        return text.replace("\0", " ")


class TsvTable(TableWriter):
    """Rows without quotes, as bertsmith reads tsv files."""

    def __init__(self, file: IO[bytes], columns: Sequence[str], delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        other = "" if delimiter == "\t" else f" nor for the delimiter '{delimiter}'"
        self._replacement = "_" if delimiter == " " else " "
        replacements = "underscores" if delimiter == " " else "spaces"
        self.change = (
            f"a .tsv file has no room for tabs, line breaks and NUL in a cell{other}, so they "
            f"became {replacements}"
        )
        self.write(columns)

    def write(self, values: Sequence[Any]) -> None:
        row = self._delimiter.join(map(self._cell, values))
        self._file.write(f"{row}\n".encode())

    def _cell(self, value: Any) -> str:
        text = as_cell(value)
        changed = _NOT_IN_TSV.sub(self._replacement, text)
        changed = changed.replace(self._delimiter, self._replacement)
        self.num_changed += changed != text
        return changed


class ParquetTable(TableWriter):
    """Rows with types, in groups of `_BATCH_ROWS`."""

    def __init__(self, file: IO[bytes], columns: Mapping[str, Any]) -> None:
        # Imported here, since pyarrow takes a quarter of a second and only Parquet needs it.
        self._arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        self._schema = self._arrow.schema(
            [(name, arrow_type(column_type)) for name, column_type in columns.items()]
        )
        # Columns with values of several types hold texts.
        self._is_mixed = [column_type is Any for column_type in columns.values()]
        self._rows: list[Sequence[Any]] = []
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, values: Sequence[Any]) -> None:
        row = [
            as_cell(value) if is_mixed and value is not None else value
            for value, is_mixed in zip(values, self._is_mixed, strict=True)
        ]
        self._rows.append(row)
        if len(self._rows) == _BATCH_ROWS:
            self._write_batch()

    def _write_batch(self) -> None:
        columns = zip(*self._rows, strict=True)
        arrays = [
            self._arrow.array(with_map_entries(column, field.type), field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        if self._rows:
            self._write_batch()
        self._writer.close()

    def discard(self) -> None:
        self._writer.close()


class ExcelTable(TableWriter):
    """Rows of one sheet; texts are never formulas."""

    change = (
        "Excel has no control characters, line feeds as the only line breaks, and at most "
        f"{_MAX_EXCEL_CHARACTERS:,} characters in a cell, so control characters became spaces, "
        "carriage returns line feeds, and longer texts were cut"
    )

    def __init__(self, path: Path, file: IO[bytes], columns: Sequence[str]) -> None:
        openpyxl = import_openpyxl(path)
        self._path = path
        self._file = file
        self._workbook = openpyxl.Workbook(write_only=True)
        self._sheet = self._workbook.create_sheet("predictions")
        self._make_cell = importlib.import_module("openpyxl.cell").WriteOnlyCell
        self._num_rows = 0
        self.write(columns)

    def write(self, values: Sequence[Any]) -> None:
        """Write a row: a value for each column.

        Raises:
            InputError: the sheet has as many rows as Excel allows.
        """
        self._num_rows += 1
        if self._num_rows > MAX_ROWS_OF_SHEET:
            raise InputError(
                f"{self._path}: Excel has at most {MAX_ROWS_OF_SHEET:,} rows, and there are more. "
                "Write .csv or .parquet."
            )
        self._sheet.append([self._cell(value) for value in values])

    def _cell(self, value: Any) -> Any:
        if value is None or _is_excel_value(value):
            return value
        text = as_cell(value)
        changed = _CARRIAGE_RETURN.sub("\n", text)
        changed = _NOT_IN_XML.sub(" ", changed)[:_MAX_EXCEL_CHARACTERS]
        self.num_changed += changed != text
        cell = self._make_cell(self._sheet, changed)
        cell.data_type = "s"  # also if it begins with =
        return cell

    def close(self) -> None:
        self._workbook.save(self._file)

    def discard(self) -> None:
        if not self._sheet.closed:
            self._sheet.close()


def _is_excel_value(value: Any) -> bool:
    """Return whether Excel has numbers, truth values, dates or times for a value."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) < _EXCEL_INTEGERS
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, date) and value.year < _FIRST_EXCEL_YEAR:
        return False
    return isinstance(value, date | time_of_day) and getattr(value, "tzinfo", None) is None


def as_cell(value: Any) -> str:
    """Format a value as the text of a cell; lists and objects become JSON.

    >>> [as_cell(value) for value in (None, "a", 0.5, ["a", 1])]
    ['', 'a', '0.5', '["a", 1]']
    """
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=cell_text)
    return repr(value) if isinstance(value, float) else cell_text(value)


def with_map_entries(values: Sequence[Any], column_type: Any) -> Sequence[Any]:
    """Return the values of a column with the entries of maps as tuples, as pyarrow takes them.

    `read_parquet` gives each entry as a list of a key and a value. `column_type` is pyarrow's.
    """
    types = importlib.import_module("pyarrow.types")

    def convert(value: Any, value_type: Any) -> Any:
        if value is None or not types.is_nested(value_type):
            return value
        if types.is_map(value_type):
            return [(key, convert(item, value_type.item_type)) for key, item in value]
        if types.is_struct(value_type):
            return {field.name: convert(value[field.name], field.type) for field in value_type}
        return [convert(item, value_type.value_type) for item in value]

    if not types.is_nested(column_type):
        return values
    return [convert(value, column_type) for value in values]


def arrow_type(column_type: Any) -> Any:
    """Return pyarrow's type for a column's type as `table_writer` takes it."""
    arrow = importlib.import_module("pyarrow")
    if isinstance(column_type, arrow.DataType):
        return column_type
    arrow_types = {int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    return arrow_types.get(column_type, arrow.string())
