"""Read Excel workbooks (.xlsx), a row at a time, by openpyxl."""

import importlib
import zipfile
import zlib
from collections.abc import Collection, Iterator
from datetime import date, datetime
from datetime import time as time_of_day
from pathlib import Path
from types import ModuleType
from typing import Any

from bertsmith.data.json_rows import list_names
from bertsmith.data.parquet_files import check_is_seekable, open_seekable
from bertsmith.errors import ConfigError, InputError, warn_once
from bertsmith.system.progress import progress_bar

MAX_ROWS_OF_SHEET = 1 << 20
"""Largest number of rows of a sheet, as in Excel. In a damaged file a row may claim any number, and
openpyxl fills up with empty rows before it."""
MAX_UNPACKED = 1 << 32
"""Largest unpacked size of a workbook in bytes; openpyxl holds its texts in memory."""
ERROR_VALUES = {
    "#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#CALC!", "#SPILL!",
}  # fmt: skip
"""Results of formulas that failed."""
ERRORS_OF_DAMAGE = (
    zipfile.BadZipFile, zlib.error, RuntimeError, LookupError, ValueError, EOFError, SyntaxError,
    TypeError, AttributeError,
)  # fmt: skip
"""Errors that openpyxl and zipfile raise for a damaged workbook. An error in its XML is a
SyntaxError; a part that is encrypted, or compressed in an unknown way, is a RuntimeError."""


def import_openpyxl(path: Path) -> ModuleType:
    """Import openpyxl.

    Raises:
        ConfigError: openpyxl is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("openpyxl")
    except ImportError:
        raise ConfigError(
            f"{path}: Excel files need the package openpyxl, which is not installed. Run: pip "
            "install 'bertsmith[excel]'. Or save the table as .csv."
        ) from None


def read_xlsx(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of the first sheet: their numbers, as Excel shows them, and cells.

    A row has as many cells as the first row that is not empty: it is filled up with None, but keeps
    cells beyond that width. An empty row has no cells. Of a formula, the stored result is read. A
    warning names further sheets that are not empty.

    Raises:
        InputError: the file is damaged or no workbook, has no sheet of cells, or is standard input.
        ConfigError: openpyxl is not installed.
    """
    check_is_seekable(path, "an Excel workbook")
    openpyxl = import_openpyxl(path)
    with progress_bar(path.name, path.stat().st_size) as bar, open_seekable(path, bar) as file:
        try:
            size = _unpacked_size(file)
        except ERRORS_OF_DAMAGE as error:
            raise _damaged(path, error) from error
        if size > MAX_UNPACKED:
            raise InputError(
                f"{path}: takes {size:,} bytes when it is unpacked, and at most {MAX_UNPACKED:,} "
                "are read. Save the table as .csv."
            )
        try:
            workbook = openpyxl.load_workbook(file, read_only=True, data_only=True)
            other_names = [sheet.title for sheet in workbook.worksheets[1:] if _has_values(sheet)]
        except ERRORS_OF_DAMAGE as error:
            raise _damaged(path, error) from error
        if not workbook.worksheets:
            raise InputError(f"{path}: no sheet with cells. Save the table as the first sheet.")
        sheet = workbook.worksheets[0]
        if other_names:
            warn_once(
                f"{path}: only the first sheet, '{sheet.title}', is read (others: "
                f"{list_names(other_names)}). To read another one, move it to the front or save it "
                "as .csv."
            )
        sheet.reset_dimensions()  # some programs write wrong ones
        width = 0
        rows = enumerate(_iter_values(sheet), start=1)
        while True:
            try:
                number, values = next(rows, (0, ()))  # 0: no more rows
            except ERRORS_OF_DAMAGE as error:
                raise _damaged(path, error) from error
            if not number:
                return
            cells = _without_empty_end(values)
            width = width or len(cells)
            yield number, cells + [None] * (width - len(cells)) if cells else []


def find_formula(path: Path, row: int, columns: Collection[int]) -> str | None:
    """Return the first formula in a row of the first sheet, such as `=A2&B2`; None without one.

    This reads the file up to the row once more: `read_xlsx` returns only the stored result of a
    formula, or an empty cell if none is stored.

    Args:
        row: its number, from 1.
        columns: indices of the cells to look at, from 0.
    """
    openpyxl = import_openpyxl(path)
    with open_seekable(path, lambda num_bytes: None) as file:  # without a progress bar
        try:
            sheet = openpyxl.load_workbook(file, read_only=True).worksheets[0]
            sheet.reset_dimensions()
            for cells in sheet.iter_rows(min_row=row, max_row=row):
                for cell in (cells[index] for index in columns if index < len(cells)):
                    if cell.data_type == "f":
                        # An array formula has its text in an attribute.
                        return str(getattr(cell.value, "text", cell.value))
        except ERRORS_OF_DAMAGE:
            return None  # openpyxl reads ahead, and the file is damaged after this row
    return None


def cell_text(value: Any) -> str:
    """Return a cell of a workbook as text.

    >>> [cell_text(value) for value in (None, "a", True, 3.0, 2.5)]
    ['', 'a', 'true', '3', '2.5']
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    # A date is read as midnight of that day, without a time zone.
    if isinstance(value, datetime) and value.timetz() == time_of_day():
        value = value.date()
    return value.isoformat() if isinstance(value, date | time_of_day) else str(value)


def _has_values(sheet: Any) -> bool:
    """Return whether a sheet has a cell that is not empty."""
    sheet.reset_dimensions()
    return any(map(_without_empty_end, _iter_values(sheet)))


def _iter_values(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row.

    Raises:
        ValueError: a row has a number above `MAX_ROWS_OF_SHEET`.
    """
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > MAX_ROWS_OF_SHEET:
            raise ValueError(f"a row has a number above {MAX_ROWS_OF_SHEET:,}")
        yield values


def _without_empty_end(values: tuple[Any, ...]) -> list[Any]:
    last = max((i for i, value in enumerate(values) if value not in (None, "")), default=-1)
    return list(values[: last + 1])


def _unpacked_size(file: Any) -> int:
    """Return the bytes that a workbook takes when it is unpacked, by its list of parts."""
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist())
    file.seek(0)
    return size


def _damaged(path: Path, error: Exception) -> InputError:
    problem = (str(error) or type(error).__name__).splitlines()[0]
    return InputError(
        f"{path}: damaged, or not an Excel workbook ({problem}). Copy the file again, or save the "
        "table as .csv."
    )
