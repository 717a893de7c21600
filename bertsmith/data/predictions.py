"""Read predictions of any system from files, to score them: answers by question, labels by row."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bertsmith.data.column_specs import ColumnSpec, find_column, is_repeated
from bertsmith.data.delimiters import delimiter_in
from bertsmith.data.examples import as_label_set
from bertsmith.data.excel_files import cell_text
from bertsmith.data.json_rows import get_value, json_type, list_names
from bertsmith.data.json_stream import iter_members
from bertsmith.data.objects import ObjectFormat, holds_objects, read_objects
from bertsmith.data.predicted_columns import PREDICTED_LABEL_COLUMNS, find_line_key
from bertsmith.data.row_ids import row_ids
from bertsmith.data.row_texts import RAGGED
from bertsmith.data.squad import question_format
from bertsmith.data.tables import RowFormat, read_rows, read_txt, table_format
from bertsmith.data.text_files import locate_row, name_source
from bertsmith.errors import InputError

NUMBER_COLUMNS = (
    "predicted_value", "predicted_label", "prediction", "predicted", "pred", "value", "score",
    "label",
)  # fmt: skip
"""Columns that may hold predicted numbers. A label beside a score is the gold one."""
NUMBERED_COLUMN = re.compile(r"predicted_(label|labels|value)(_\d+)?")
"""Columns of predictions as `predict` names them; several in a file are those of several models."""


def read_answers(path: Path) -> dict[str, str]:
    """Read predicted answers, by question id.

    Raises:
        InputError: the file cannot be read, or an answer is not text.
    """
    answers = _read_by_id(path, "answer")
    return {id_: _check_value(path, id_, value, str) for id_, value in answers.items()}


def read_no_answer_probs(path: Path) -> dict[str, float]:
    """Read no-answer scores, finite numbers by question id.

    Raises:
        InputError: the file cannot be read, or a score is not a finite number.
    """
    scores = _read_by_id(path, "no_answer_score")
    return {id_: float(_check_value(path, id_, value, float)) for id_, value in scores.items()}


def _read_by_id(path: Path, key: str) -> dict[str, Any]:
    """Read values by question id.

    A .json file of one object has the ids as its keys. In other files, each row has an id, and the
    value under `key`.
    """
    file_format = question_format(path)
    if file_format != "squad":  # "squad": any .json file of one object
        return _without_doubles(path, _values_of_rows(path, key, file_format))
    return _without_doubles(path, iter_members(path, "from each question's id to its answer"))


def _values_of_rows(path: Path, key: str, file_format: ObjectFormat) -> Iterator[tuple[str, Any]]:
    for row, record in read_objects(path, file_format):
        location = locate_row(path, row)
        id_ = get_value(record, "id", object, location)
        yield str(id_), get_value(record, key, object, location)


def _without_doubles(path: Path, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for id_, value in pairs:
        if id_ in values:
            raise InputError(f"{path}: '{id_}' appears twice. Give one answer for each question.")
        values[id_] = value
    return values


def _check_value(path: Path, id_: str, value: Any, expected_type: type) -> Any:
    """Return a value that is a string, or with the type float a finite number; refuse others."""
    if expected_type is str and isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if expected_type is float and is_number and _is_finite(value):
        return value
    actual = str(value) if is_number else json_type(value)
    expected = "a finite number"
    if expected_type is str:
        expected = "a string (empty where there is no answer)"
    raise InputError(f"{path}: '{id_}' is {actual}; {expected} is expected. Fix it.")


def _is_finite(number: float) -> bool:
    """Return whether a JSON number is a finite float; integers may be too large."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


@dataclass(frozen=True, slots=True)
class PredictedLabel:
    """Predicted label of a row.

    Attributes:
        label: one label, a number, or several labels as one text, such as `sport,news`.
        ordinal: number of the prediction in its file, from 1.
        row: the line of the gold file that the prediction names; 0 if it names none.
        text: the text that the prediction names; empty if it names none.
        ids: ids of the prediction by the names of their columns; see `row_ids`.
    """

    label: str
    ordinal: int = 0
    row: int = 0
    text: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


def read_labels(
    path: Path,
    *,
    columns: Sequence[str] = PREDICTED_LABEL_COLUMNS,
    several: bool = False,
    delimiter: str | None = None,
    text_column: str | None = None,
) -> Iterator[PredictedLabel]:
    """Yield predicted labels.

    Args:
        path: `.txt`, `.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet` or `.xlsx`.
        columns: columns that may hold predictions. The first of them that the file has is read; it
            must be the same one in all lines.
        several: whether a line may have any number of labels: several as one text, such as
            `sport,news`, or as a JSON list, or none.
        delimiter: separator of columns, of a table that has it in its first row.
        text_column: the column or key with the text that a prediction is for.

    Raises:
        InputError: a line without a label, no column of labels, or a row with more or fewer cells.
    """
    read_list = (lambda labels: as_label_set(map(str.strip, labels))) if several else None
    # This description of a column only converts values to texts; it does not look for the column.
    spec = ColumnSpec(
        name="label", option="", chosen=None, usual_names=(),
        scalars=(bool, int, float), read_list=read_list,
    )  # fmt: skip
    # If a line may have several labels, an empty line means that the row has none.
    cells = _iter_cells(path, columns, delimiter, text_column, keep_blank=several)
    for ordinal, cell in enumerate(cells, start=1):
        location = locate_row(path, cell.row)
        (label,) = spec.texts(location, cell.column, cell.value)
        if not several and not label.strip():
            raise InputError(f"{location}: the label is empty. Give one label on each line.")
        label = label if several else label.strip()
        yield PredictedLabel(label, ordinal, cell.gold_row, cell.text, cell.ids)


class _Cell(NamedTuple):
    """The value of a prediction in line `row` of its file, under the name `column`.

    `gold_row` is the line of the gold file that the prediction names, or 0; `text` the text that it
    names, or empty; `ids` are its ids by the names of their columns.
    """

    row: int
    column: str
    value: Any
    gold_row: int = 0
    text: str = ""
    ids: Mapping[str, str] = MappingProxyType({})


def _iter_cells(
    path: Path,
    columns: Sequence[str],
    delimiter: str | None,
    text_column: str | None,
    *,
    keep_blank: bool,
) -> Iterator[_Cell]:
    """Yield the prediction of each row."""
    file_format = table_format(path)
    if file_format == "txt":
        lines = read_txt(path, keep_empty_end=keep_blank)
        return (_Cell(row, "the line", line) for row, line in lines)
    if holds_objects(file_format):
        return _cells_of_objects(path, file_format, columns, text_column)
    separator = delimiter_in(path, file_format, delimiter)
    rows = read_rows(path, file_format, delimiter=separator, keep_blank=keep_blank)
    texts = ((row, [cell_text(cell) for cell in cells]) for row, cells in rows)
    return _cells_of_table(path, file_format, texts, columns, text_column)


def _cells_of_table(
    path: Path,
    file_format: RowFormat,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[str],
    text_column: str | None,
) -> Iterator[_Cell]:
    """Yield the predictions of a table, whose first row that is not blank is the header."""
    first_row, header = next(((row, cells) for row, cells in rows if cells), (0, []))
    if not header:
        raise InputError(f"{name_source(path)}: no rows. Give a file with at least one.")
    index = header.index(_prediction_column(path, first_row, header, columns, is_header=True))
    text_index = header.index(text_column) if text_column in header else None
    for row, cells in rows:
        if not cells and len(header) > 1:
            continue
        # In a table of one column, a blank row is an empty cell.
        if len(cells or [""]) != len(header):
            raise InputError(
                f"{locate_row(path, row)}: columns: found {len(cells)}, where row {first_row} has "
                f"{len(header)}. {RAGGED[file_format]}"
            )
        text = "" if text_index is None or not cells else cells[text_index]
        ids = row_ids(header, cells) if cells else {}
        yield _Cell(row, header[index], cells[index] if cells else "", text=text, ids=ids)


def _cells_of_objects(
    path: Path, file_format: ObjectFormat, columns: Sequence[str], text_column: str | None
) -> Iterator[_Cell]:
    seen_keys: dict[str, None] = {}  # the keys of all rows so far, in order
    name = ""
    for row, record in read_objects(path, file_format):
        if not record.keys() <= seen_keys.keys():
            seen_keys |= dict.fromkeys(record)
            column = _prediction_column(path, row, list(seen_keys), columns)
            if name and column != name:
                raise InputError(
                    f"{locate_row(path, row)}: has '{column}', which the lines before lack: there, "
                    f"'{name}' was taken for the prediction. Give every line '{column}'."
                )
            name = column
        if name not in record:
            raise InputError(
                f"{locate_row(path, row)}: no key '{name}', which the lines before have. Keys "
                f"found: {list_names(record)}. Give every line a prediction."
            )
        line_key = find_line_key(record)
        gold_row = None if line_key is None else record[line_key]
        text = record.get(text_column) if text_column is not None else None
        yield _Cell(
            row,
            name,
            record[name],
            gold_row=gold_row if isinstance(gold_row, int) else 0,
            text=text if isinstance(text, str) else "",
            ids=row_ids(tuple(record), tuple(record.values())),
        )


def _prediction_column(
    path: Path,
    row: int,
    column_names: Sequence[str],
    columns: Sequence[str],
    *,
    is_header: bool = False,
) -> str:
    """Find the name of the column of predictions.

    Args:
        row: the row of the file that has `column_names`, for messages.
        columns: columns that may hold predictions; the first one that the file has is returned.
        is_header: whether `row` is a header, and not an object with its own keys.

    Raises:
        InputError: no such column, several columns of one name, or predictions of several models.
    """
    numbered = [name for name in column_names if NUMBERED_COLUMN.fullmatch(name)]
    if len(numbered) > 1:
        raise InputError(
            f"{locate_row(path, row)}: it holds predictions of several models: "
            f"{list_names(numbered)}. Rename all but the right one."
        )
    for name in columns:
        # Width 0: these are names, so they are never taken for numbers of columns.
        if (index := find_column(name, column_names, width=0)) is not None:
            return column_names[index]
        if is_repeated(name, column_names):
            raise InputError(
                f"{locate_row(path, row)}: several columns are called '{name}'. Columns found: "
                f"{list_names(column_names)}. Rename all but the right one."
            )
    usual = (column for column in columns if not column.startswith("predicted_"))
    usual_names = ", ".join(f"'{column}'" for column in usual)
    raise InputError(
        f"{locate_row(path, row)}: no column of predictions ({usual_names}). Columns found: "
        f"{list_names(column_names)}. Rename the one with predictions to 'prediction'"
        f"{', or add a header if this row is none' if is_header else ''}."
    )
