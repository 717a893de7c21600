"""Read one column of a .csv or .tsv file, whose texts become documents.

A row that cannot be read is an error, or with errors="skip" it is left out and counted. The header
is never left out, as no row can be read without it.
"""

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from bertsmith.data.delimiters import separator_hint
from bertsmith.data.lines import MAX_ROW_BYTES, Lines
from bertsmith.errors import InputError, option

LINE_CHARACTERS = 64
"""Characters that each line of a row counts beside its own, so that a row of very many short lines
is too long as well. Python needs about twice as many bytes to keep a short line, but the bound need
not be exact."""
_TOO_LONG = "row too long"


def iter_table(lines: Lines, *, quoted: bool) -> Iterator[str]:
    """Yield the texts of the text column, row by row.

    Args:
        lines: the lines of the file, with the settings and counts of reading it (`lines.reading`).
        quoted: true for .csv, where commas and line ends between quotes belong to a text.

    Raises:
        InputError: the header cannot be read, or does not name the column exactly once; or a row
            cannot be read, unless `errors` is "skip".
    """
    reading = lines.reading
    rows = _iter_rows(lines, quoted)
    # Until the header is read, an error in the file is raised, even with errors="skip".
    lines.reading = replace(reading, can_skip=False)
    header_number, header = next(rows, (1, []))
    lines.reading = reading
    if reading.text_column not in header:
        problem = reading.describe_missing_column(header)
        raise InputError(
            f"{reading.source.path}:{header_number}: {problem}. Choose one with "
            f"{option(reading.column_option)}; the first line has to name the columns."
        )
    if header.count(reading.text_column) > 1:
        raise InputError(
            f"{reading.source.path}:{header_number}: {reading.describe_repeated_column()}"
        )
    column = header.index(reading.text_column)
    for number, row in rows:
        if len(row) == len(header):
            yield row[column]
        else:
            problem = f"fields: found {len(row)}, where the header names {len(header)}"
            reading.reject("bad_rows", location=f":{number}", problem=problem, advice="Fix the row")


def _iter_rows(lines: Lines, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with its first line's number."""
    # The default of 131,072 characters is too few for a document.
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
                is_header = not lines.reading.can_skip
                hint = separator_hint("csv", line, before='"', can_ask=False) if is_header else ""
                advice = f'Close each quote, and double those inside a field ("").{hint} {advice}'
            # This raises, unless bad rows are skipped: then the next row is read.
            lines.reading.reject("bad_rows", f":{number}", _csv_problem(error), advice)
            row_lines.give_back_all_but_first()
        else:
            if row:
                yield row_lines.first[0], row


class _RowLines:
    """Lines for a csv.reader, which can be given back to be read again as other rows.

    After a quote that is never closed, csv.reader reads all lines up to the next quote as one row,
    although they are rows of their own. So the lines of the current row are kept. They are bounded:
    a row is a csv.Error if its characters, with `LINE_CHARACTERS` more for each line, are more than
    `MAX_ROW_BYTES`.
    """

    def __init__(self, lines: Lines) -> None:
        # Lines that `whole` rejects do not come up here, but `lines.number` counts them.
        self._new = ((lines.number, line) for line in lines.whole())
        self._again: deque[tuple[int, str]] = deque()
        self.begin_row()

    def __iter__(self) -> "_RowLines":
        return self

    def __next__(self) -> str:
        numbered = self._again.popleft() if self._again else next(self._new)
        self._row.append(numbered)
        self._size += LINE_CHARACTERS + len(numbered[1])
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
            f"the row is too long: its characters, plus {LINE_CHARACTERS} for each of its lines, "
            f"are more than {MAX_ROW_BYTES:,}; perhaps a quote is never closed"
        )
    if "new-line character" in str(error):
        return "a carriage return (CR) within the row, outside of quotes"
    if "unexpected end of data" in str(error):
        return "a quote that opens in this row is never closed"
    return f"the row cannot be read ({error})"
