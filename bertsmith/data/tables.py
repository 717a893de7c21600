"""Read rows of csv, tsv, Excel and text files, with the numbers of their lines or Excel rows.

In a `.csv` file quotes follow RFC 4180; in a `.tsv` file they are plain characters, as in published
data sets in that format.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from bertsmith.data.csv_blanks import has_blanks_before_quotes
from bertsmith.data.delimiters import DEFAULT_DELIMITERS, delimiter_of, separator_hint
from bertsmith.data.excel_files import read_xlsx
from bertsmith.data.lines import MAX_ROW_BYTES
from bertsmith.data.sources import check_not_packed, ending_in_words, ending_of
from bertsmith.data.text_files import (
    STANDARD_INPUT,
    ExampleSource,
    check_is_file,
    check_line_ends,
    iter_lines,
    locate_row,
    lone_return_error,
    name_source,
    too_long_error,
)
from bertsmith.errors import ConfigError, InputError, option

RowFormat = Literal["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "txt"]
"""Formats of files of examples, by the endings of their names."""
TableFormat = Literal["auto", RowFormat]
"""A format as a setting; auto means the format that the file's name shows."""
ASK_FORMAT = (
    f"If it is a table by another name, say which: {option('format', 'tsv')} (or csv, jsonl)."
)
"""Advice in an error about a file that is no table by its name."""
ASK_FORMAT_OF_TEXTS = (
    "If it holds texts or a table by another name, say which: "
    f"{option('format', 'txt')} (a text on each line; or csv, tsv, jsonl)."
)
"""The advice where lines of text are enough."""


def table_format(
    source: ExampleSource,
    chosen: TableFormat | None = None,
    delimiter: str | None = None,
    *,
    may_be_lines: bool = False,
) -> RowFormat:
    """Return a file's format: `chosen`, or the format that its name shows; txt for standard input.

    Rows in memory are read like jsonl, and a text file with a `delimiter` like csv. Formats without
    separators ignore the delimiter, as it may be meant for other files of the same call.

    Args:
        chosen: the format that the user set. None if there is no such setting, so that messages do
            not name it.
        may_be_lines: whether lines of text are enough, so that messages also name .txt.

    Raises:
        InputError: there is no such file, or its name has an unknown ending.
    """
    file_format = _format_without_delimiter(source, chosen, may_be_lines)
    return "csv" if delimiter is not None and file_format == "txt" else file_format


def check_delimiter(columns: Any, *sources: ExampleSource | None) -> None:
    """Check that a delimiter, if one is set, separates the columns of at least one source.

    Args:
        columns: the settings for reading the sources; for some tasks they have no delimiter.
        sources: all sources of a call; None for one that is not set.

    Raises:
        InputError: as `table_format`.
        ConfigError: none of the sources has separators between columns.
    """
    delimiter = getattr(columns, "delimiter", None)
    if delimiter is None:
        return
    read_as: dict[str, None] = {}  # descriptions of the sources, each once, in order
    advice = "Leave it out."
    for source in sources:
        if source is None:
            continue
        file_format = table_format(source, columns.format, delimiter)
        if file_format in DEFAULT_DELIMITERS:
            return
        if isinstance(source, Path):
            read_as[f"{name_source(source)} is read as {file_format}"] = None
            advice = f"Leave it out, or pass {option('format', 'csv')}."
        else:
            read_as[f"{name_source(source)} are objects"] = None
    if read_as:
        raise ConfigError(
            f"{option('delimiter')}: {' and '.join(read_as)}, without separators between columns. "
            f"{advice}"
        )


def check_has_columns(columns: Any, source: ExampleSource) -> None:
    """Check that a file has columns if options name some: lines of text have none.

    Args:
        columns: the settings for reading the file; for some tasks they name no columns of texts.

    Raises:
        ConfigError: an option names a column, or says that there is a header, and the file is read
            as a text on each line.
    """
    names = [name for name in ("text_column", "pair_column") if getattr(columns, name, None)]
    if getattr(columns, "header", None) == "yes":
        names.append("header")
    has_delimiter = getattr(columns, "delimiter", None) is not None
    if not names or has_delimiter or not isinstance(source, Path):
        return
    are_lines = source == STANDARD_INPUT or ending_of(source) == "txt"
    chosen = getattr(columns, "format", None)  # a task of the user may have no such option
    if chosen == "txt" or (chosen == "auto" and are_lines):
        raise ConfigError(
            f"{option(names[0])}: {name_source(source)} is read as txt, a text on each line, "
            f"without columns. Leave it out; or, if it is a table, pass {option('format', 'tsv')} "
            "(or csv)."
        )


def _format_without_delimiter(
    source: ExampleSource, chosen: TableFormat | None, may_be_lines: bool
) -> RowFormat:
    """Return a file's format as `table_format` does, if no delimiter is set."""
    if not isinstance(source, Path):
        return "jsonl"
    check_is_file(source)
    if chosen is not None and chosen != "auto":
        return chosen
    if source == STANDARD_INPUT:
        return "txt"
    ending = ending_of(source)
    by_name: RowFormat | None = next((name for name in get_args(RowFormat) if name == ending), None)
    if by_name is None:
        check_not_packed(source)
        how_to_ask = ASK_FORMAT_OF_TEXTS if may_be_lines else ASK_FORMAT
        hint = "" if chosen is None else f" {how_to_ask}"
        if ending == "xls":
            hint = " In Excel: Save as, Excel workbook (.xlsx)."
        texts = ".txt, " if may_be_lines else ""
        raise InputError(
            f"{source}: {ending_in_words(source)}; allowed are {texts}.csv, .tsv, "
            ".jsonl, .json, .parquet or .xlsx, plain or compressed as .gz, .xz or .zst. Rename or "
            f"convert it.{hint}"
        )
    return by_name


def whole_number(text: str) -> int | None:
    """Parse decimal digits; None for other text.

    None also for more than nine digits: no count is that large, and Python refuses to parse
    thousands of digits.
    """
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def column_index(chosen: str, width: int) -> int | None:
    """Convert the number of a column, from 1 to `width`, to its index; None for other text."""
    number = whole_number(chosen) or 0
    return number - 1 if 1 <= number <= width else None


def read_txt(path: Path, *, keep_empty_end: bool = False) -> Iterator[tuple[int, str]]:
    """Yield each line's number and text; empty lines at the end only if `keep_empty_end`.

    Raises:
        InputError: as `iter_lines`; or the first line has a carriage return inside.
    """
    num_empty = 0  # empty lines before this one, which are yielded if a line with text follows
    for row, line in enumerate(iter_lines(path), start=1):
        text = line.rstrip("\r\n")
        if row == 1:  # in later lines, a carriage return may belong to a text
            check_line_ends(locate_row(path, row), text)
        if not text and not keep_empty_end:
            num_empty += 1
            continue
        yield from ((empty, "") for empty in range(row - num_empty, row))
        num_empty = 0
        yield row, text


def read_csv(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield each row's number, that of its first line, and cells; blank lines have no cells.

    Raises:
        InputError: the file has quotes that do not match, a lone carriage return, or a row longer
            than `MAX_ROW_BYTES`, as after a quote that never ends.
    """
    # The default refuses a cell above 131,072 characters. The limit is that of the whole process,
    # so a larger one of the caller stays.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    source_name = name_source(path)
    line = ""
    row = size = 0  # number of the row that is read, and its characters so far

    def row_lines() -> Iterator[str]:
        nonlocal line, size
        for line in iter_lines(path):
            size += len(line)
            if size > MAX_ROW_BYTES:
                raise too_long_error(f"{source_name}:{row}", "row")
            yield line

    reader = csv.reader(
        row_lines(),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=has_blanks_before_quotes(path, delimiter),
    )
    while True:
        row = reader.line_num + 1
        size = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "new-line character" in str(error):  # a CR outside of quotes, not before LF
                raise lone_return_error(f"{source_name}:{reader.line_num}") from None
            hint = separator_hint("csv", line, before='"') if row == 1 else ""
            raise InputError(
                f"{source_name}:{row}: not valid CSV ({error}). A quoted cell ends at a double "
                f"quote; a quote inside it is written twice.{hint}"
            ) from None
        yield row, cells


def read_rows(
    path: Path, file_format: RowFormat, *, delimiter: str | None = None, keep_blank: bool = False
) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of a csv, tsv or xlsx file; blank rows, without cells, only if `keep_blank`.

    In a file of one column a blank row is an empty cell, unless it is at the end. Cells are
    strings; in Excel files also numbers, booleans, dates or None.

    Raises:
        InputError: the file cannot be read, or is not a valid table.
        ConfigError: the delimiter is not one character, or openpyxl is not installed.
    """
    if file_format == "xlsx":
        rows: Iterator[tuple[int, list[Any]]] = read_xlsx(path)
    elif file_format == "csv":
        rows = read_csv(path, delimiter_of(file_format, delimiter))
    else:
        separator = delimiter_of(file_format, delimiter)
        lines = read_txt(path, keep_empty_end=True)
        rows = ((row, line.split(separator) if line else []) for row, line in lines)
    return iter(rows) if keep_blank else _without_blank(rows)


def _without_blank(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Leave out blank rows; in a table of one column, make them empty cells, except at the end."""
    width = 0
    blank_rows: list[int] = []
    for row, cells in rows:
        width = width or len(cells)
        if cells:
            yield from ((blank_row, [""]) for blank_row in blank_rows)
            blank_rows = []
            yield row, cells
        elif width == 1:
            blank_rows.append(row)
