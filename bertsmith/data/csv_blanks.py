"""Recognize CSV files that have a blank between a separator and a quoted cell: `1, "a, b"`."""

import csv
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bertsmith.data.text_files import STANDARD_INPUT, iter_lines
from bertsmith.errors import InputError

LINES_AHEAD = 100
"""Number of lines that decide how a file is read."""


def has_blanks_before_quotes(path: Path, delimiter: str = ",") -> bool:
    """Return whether to skip the blanks before quotes, because the quotes enclose cells.

    The first rows are parsed twice: without the blanks and with them. In `1, "a, b"` the quotes
    enclose a cell if the blank is skipped; otherwise the comma inside the quotes divides the cell.
    The result is true in two cases:

    - All rows have as many cells as the first row without the blanks, but not with them.
    - All rows have as many cells as the first row both without the blanks and with them, and each
      cell that begins with a blank and a quote ends in a quote.

    It is false for standard input, which can be read only once, and for a file that cannot be read.
    """
    if path == STANDARD_INPUT:
        return False
    try:
        lines = list(islice(iter_lines(path), LINES_AHEAD))
    except InputError:  # the reader will raise it again
        return False
    if not any(re.search(rf'(^|{re.escape(delimiter)}) +"', line) for line in lines):
        return False
    rows_without_blanks = _parse(lines, delimiter, skip_blanks=True)
    if rows_without_blanks is None or not _have_equal_widths(rows_without_blanks):
        return False
    rows_with_blanks = _parse(lines, delimiter, skip_blanks=False)
    if rows_with_blanks is None or not _have_equal_widths(rows_with_blanks):
        return True
    quoted = [cell.strip() for row in rows_with_blanks for cell in row if re.match(' +"', cell)]
    return bool(quoted) and all(len(cell) > 1 and cell.endswith('"') for cell in quoted)


def _parse(lines: Sequence[str], delimiter: str, *, skip_blanks: bool) -> list[list[str]] | None:
    """Parse the rows that end within these lines; None if the lines are not valid CSV."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=skip_blanks)
    rows: list[list[str]] = []
    try:
        rows.extend(reader)
    except csv.Error:
        # The file goes on after these lines, and its last row here may end only there.
        is_last_row_cut = len(lines) == LINES_AHEAD and reader.line_num == len(lines)
        return rows if is_last_row_cut else None
    return rows


def _have_equal_widths(rows: Sequence[Sequence[str]]) -> bool:
    return len({len(row) for row in rows if row}) == 1
