"""Files of predictions: the rows of the user's table, each with the columns of its prediction."""

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bertsmith.data.column_specs import lowered
from bertsmith.data.excel_files import cell_text
from bertsmith.data.predicted_columns import LINE, OTHER_LINE, PREDICTED_LABEL_COLUMNS
from bertsmith.data.records import RecordReader, SourceRow
from bertsmith.data.source_columns import source_columns, unique_names
from bertsmith.data.table_writer import TABLE_ENDINGS, table_writer
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import InputError
from bertsmith.system.files import atomic_write
from bertsmith.tasks.task import Task

Predicted = Iterable[tuple[Any, Any]]
"""Examples with their predictions."""


class PendingRows:
    """Iterable of a table's examples, which keeps the rows of examples that are not predicted yet.

    Examples are read in chunks, ahead of their predictions. Each row waits in a queue until its
    prediction is written beside it.
    """

    def __init__(self, reader: RecordReader[Any]) -> None:
        self.reader = reader
        self._rows: deque[SourceRow] = deque()

    def __iter__(self) -> Iterator[Any]:
        for example, row in self.reader.with_rows():
            self._rows.append(row)
            yield example

    @property
    def first_row(self) -> SourceRow:
        """The row of the next prediction, which stays in the queue."""
        return self._rows[0]

    def next_row(self) -> SourceRow:
        """Remove and return the row of the next prediction."""
        return self._rows.popleft()


def endings(task: Task[Any, Any]) -> list[str]:
    """List the endings, such as .jsonl, of files in which predictions of a task can be written."""
    return [*task.formats, *(TABLE_ENDINGS if task.cell_types else ())]


def write_predictions(
    path: Path, task: Task[Any, Any], pairs: Predicted, source_rows: PendingRows | None
) -> str | None:
    """Write a file of predictions in the format of its name's ending.

    The result is a remark for the user on cells that the format could not hold as they are, or
    None.

    Args:
        pairs: examples with their predictions.
        source_rows: the rows that the examples were read from, whose columns are written too;
            None if the examples are not from a table.

    Raises:
        InputError: the file cannot be written, or the source cannot be read.
        ConfigError: the file is an Excel file, and openpyxl is not installed.
    """
    ending = path.suffix.lower()
    if ending in TABLE_ENDINGS:
        return _write_table(path, task, pairs, source_rows)
    if ending == ".jsonl" and source_rows is not None:
        lines = _json_lines(task, pairs, source_rows)
    else:
        lines = task.formats[ending](pairs)
    with atomic_write(path, "w") as file:
        file.writelines(lines)
    return None


def _write_table(
    path: Path, task: Task[Any, Any], pairs: Predicted, source_rows: PendingRows | None
) -> str | None:
    """Write a table, whose columns the first example decides; return a remark on cells, or None."""
    first, pairs = _peek(pairs)
    if first is None:
        raise InputError(f"{path}: there is nothing to predict, so no table was written.")
    example, _ = first
    delimiter = None
    if source_rows is None:
        columns: dict[str, Any] = dict.fromkeys(_own_cells(example), str)
    else:
        # The types of the columns of the user's table, by their names.
        columns = source_columns(source_rows.reader, source_rows.first_row)
        # A file in the format of the user's has the same separator.
        if path.suffix.lower() == f".{source_rows.reader.file_format}":
            delimiter = source_rows.reader.delimiter
    # The name of each added column, which no column of the user's table has.
    added = added_names(columns, task.cell_types)
    types = columns | {added[name]: type_ for name, type_ in task.cell_types.items()}
    with table_writer(path, types, delimiter) as writer:
        for example, prediction in pairs:
            if source_rows is None:
                source_cells = list(_own_cells(example).values())
            else:
                source_cells = _in_order(source_rows.next_row(), columns)
            predicted_cells = task.cells(prediction)
            writer.write([*source_cells, *(predicted_cells[name] for name in added)])
    return writer.note()


def _own_cells(example: Any) -> dict[str, Any]:
    """Return the texts of an example that is not from a table, without its number."""
    fields = example.to_json()  # LINE is "line", the key of a line number
    return {name: value for name, value in fields.items() if name not in (LINE, "row")}


def _in_order(row: SourceRow, columns: Mapping[str, Any]) -> list[Any]:
    """Return a row's values in the order of all columns, None where the row has no value."""
    # Objects, as of lines of JSON, may have other keys than the first one, or another order.
    if len(row.columns) == len(columns) and not row.is_object:
        return list(row.values)
    cells = dict(zip(row.columns, row.values, strict=True))
    return [cells.get(name) for name in columns]


class _Keys(NamedTuple):
    """The keys of the JSON object that is written for each row."""

    columns: list[str]
    """Keys of the columns of the user's table."""
    added: dict[str, str]
    """Key of each field of a prediction, by the field's name."""
    line: str
    """Key of the line number (row number for files without lines)."""


def _choose_keys(task: Task[Any, Any], prediction: Any, source_rows: PendingRows) -> _Keys:
    """Choose the keys by the first row of the table and its prediction.

    Keys of predictions begin with `predicted_`, or get a number, where the table has their names.
    """
    if source_rows.reader.source == STANDARD_INPUT:  # it cannot be read twice, to find all keys
        columns = unique_names(source_rows.first_row.columns)
    else:
        columns = list(source_columns(source_rows.reader, source_rows.first_row))
    fields = prediction.to_json()
    # Names of the answer and its probabilities, under which a table may hold right answers.
    decisions = [name for name in fields if name in (*task.cell_types, "probabilities")]
    added = {name: _unused_name(name, columns, name) for name in fields}
    added |= added_names(columns, decisions)
    # "line", or "file_line" if the table has a column of that name.
    line = LINE if LINE not in columns else _unused_name(OTHER_LINE, columns, OTHER_LINE)
    return _Keys(columns, added, line)


def _json_lines(task: Task[Any, Any], pairs: Predicted, source_rows: PendingRows) -> Iterator[str]:
    """Yield a JSON object for each row: its columns, its line number, and the prediction."""
    first, pairs = _peek(pairs)
    if first is None:
        return
    _, first_prediction = first
    keys = _choose_keys(task, first_prediction, source_rows)
    for example, prediction in pairs:
        row = source_rows.next_row()
        names = row.columns if row.is_object else keys.columns
        source = dict(zip(names, row.values, strict=True))
        if clash := source.keys() & {keys.line, *keys.added.values()}:
            location = source_rows.reader.locate_row(example.row)
            raise InputError(
                f"{location}: has the key '{min(clash)}', which the rows before it lack, so the "
                "predictions already have that name. Write the input to a file, or give every row "
                "the same keys."
            )
        predicted = {keys.line: example.row}
        predicted |= {keys.added[name]: value for name, value in prediction.to_json().items()}
        # Two objects are joined to one: the user's own numbers may be infinite, but not those of a
        # prediction.
        start = json.dumps(source, ensure_ascii=False, default=cell_text).removesuffix("}")
        end = json.dumps(predicted, ensure_ascii=False, allow_nan=False).removeprefix("{")
        yield f"{start}, {end}\n"


def added_names(columns: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Choose names for the columns of predictions, which no column of the table has.

    The names begin with `predicted_` if the table already has a column with one of the plain
    `names`, or a column that `bertsmith score` would take for predictions.

    >>> added_names(["text"], ["label", "probability"])
    {'label': 'label', 'probability': 'probability'}
    >>> added_names(["text", "Label"], ["label", "probability"])
    {'label': 'predicted_label', 'probability': 'predicted_probability'}
    """
    names, columns = list(names), list(columns)
    taken = set(lowered(columns))
    is_taken = not taken.isdisjoint({*names, *PREDICTED_LABEL_COLUMNS})
    return {
        name: _unused_name(f"predicted_{name}" if is_taken else name, columns, f"predicted_{name}")
        for name in names
    }


def _unused_name(name: str, columns: Iterable[str], stem: str) -> str:
    """Return a name that no column has: `name`, or `stem` with a number."""
    taken = set(lowered(columns))
    number = 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}_{number}"
    return name


def _peek(pairs: Predicted) -> tuple[tuple[Any, Any] | None, Iterator[tuple[Any, Any]]]:
    """Return the first pair, None if there is none, and an iterator over all pairs."""
    pairs = iter(pairs)
    first = next(pairs, None)
    return first, itertools.chain([] if first is None else [first], pairs)
