"""Read the texts of a .csv or .tsv file, for documents.

A row that cannot be read is an error, or is skipped and counted.
"""

import csv
from collections import deque
from collections.abc import Iterator

from bertsmith.data.delimiters import separator_hint
from bertsmith.data.lines import MAX_ROW_BYTES, Lines
from bertsmith.errors import InputError, option

LINE_BYTES = 64
"""Bytes that each line of a row adds to its size; Python takes about twice as many."""
_TOO_LONG = "row too long"


def iter_table(lines: Lines, *, quoted: bool) -> Iterator[str]:
    """Yield the texts of the text column, row by row.

    `quoted` is true for .csv, where commas and line ends between quotes belong to a text.

    Raises:
        InputError: the first line does not name the column once, or a row cannot be read and
            none is to be skipped.
    """
    reading = lines.reading
    rows = _iter_rows(lines, quoted)
    _, header = next(rows, (1, []))
    if reading.text_column not in header:
        problem = reading.describe_missing_column(header)
        raise InputError(
            f"{reading.source.path}:1: {problem}. Choose one with {option(reading.column_option)}; "
            "the first line has to name the columns."
        )
    if header.count(reading.text_column) > 1:
        raise InputError(f"{reading.source.path}:1: {reading.describe_repeated_column()}")
    column = header.index(reading.text_column)
    for number, row in rows:
        if len(row) == len(header):
            yield row[column]
        else:
            problem = f"fields: found {len(row)}, where the header names {len(header)}"
            reading.reject("bad_rows", f":{number}", problem, "Fix the row")


def _iter_rows(lines: Lines, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with its first line's number."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    row_lines = _RowLines(lines)
    if quoted:
        reader = csv.reader(row_lines, strict=True)
    else:
        reader = csv.reader(row_lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    while True:
        row_lines.begin_row()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number, line = row_lines.first
            advice = "Fix the row"
            if quoted:
                hint = separator_hint("csv", line, '"', can_ask=False) if number == 1 else ""
                advice = f'Close each quote, and double those inside a field ("").{hint} {advice}'
            lines.reading.reject("bad_rows", f":{number}", _csv_problem(error), advice)
            row_lines.give_back_all_but_first()
        else:
            if row:
                yield row_lines.first[0], row


class _RowLines:
    """Line source of a csv.reader that can give back the lines of a row.

    A quote that is never closed takes in all lines up to another quote, though they are rows of
    their own. The kept lines are bounded: a row whose characters, and `LINE_BYTES` for each line,
    are more than `MAX_ROW_BYTES` is a csv.Error.
    """

    def __init__(self, lines: Lines) -> None:
        self._new = ((lines.number, line) for line in lines.whole())
        self._again: deque[tuple[int, str]] = deque()
        self.begin_row()

    def __iter__(self) -> "_RowLines":
        return self

    def __next__(self) -> str:
        numbered = self._again.popleft() if self._again else next(self._new)
        self._row.append(numbered)
        self._size += LINE_BYTES + len(numbered[1])
        if self._size > MAX_ROW_BYTES:
            raise csv.Error(_TOO_LONG)
        return numbered[1]

    @property
    def first(self) -> tuple[int, str]:
        """Number and text of the row's first line."""
        return self._row[0]

    def begin_row(self) -> None:
        self._row: list[tuple[int, str]] = []
        self._size = 0

    def give_back_all_but_first(self) -> None:
        self._again.extendleft(reversed(self._row[1:]))


def _csv_problem(error: csv.Error) -> str:
    if str(error) == _TOO_LONG:
        return (
            f"the row is larger than {MAX_ROW_BYTES:,} characters, of which each of its lines "
            f"counts {LINE_BYTES} more; perhaps a quote is never closed"
        )
    if "new-line character" in str(error):
        return "a carriage return (CR) within the row, outside of quotes"
    if "unexpected end of data" in str(error):
        return "a quote that opens in this row is never closed"
    return f"the row cannot be read ({error})"
