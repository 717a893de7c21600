"""Files of predictions by any system in, answers by question or labels by row out."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bertsmith.data.examples import LIST_SEPARATOR, Example
from bertsmith.data.questions import question_format
from bertsmith.data.tables import (
    iter_text,
    json_fault,
    json_type,
    read_csv,
    read_jsonl,
    read_tsv,
    read_txt,
    table_format,
    without_half_characters,
)
from bertsmith.errors import InputError

# First match wins; a label beside a prediction is the right one, a score beside a label its
# probability.
PREDICTION_COLUMNS = ("prediction", "predicted", "pred", "value", "label", "labels", "score")


def read_answers(path: Path) -> dict[str, str]:
    """Predicted answers by their questions' ids."""
    return {id_: _checked(path, id_, value, str) for id_, value in _by_id(path, "answer").items()}


def read_no_answer_probs(path: Path) -> dict[str, float]:
    """A finite number by each question's id."""
    found = _by_id(path, "no_answer_score")
    return {id_: float(_checked(path, id_, value, float)) for id_, value in found.items()}


def _by_id(path: Path, key: str) -> dict[str, Any]:
    """The values of an object, or those of `key` in the lines of a `.jsonl` file."""
    if question_format(path) == "jsonl":
        pairs = _values_of_lines(path, key)
        return _without_doubles(path, list(pairs))
    text = "".join(iter_text(path))
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _without_doubles(path, pairs))
        value = without_half_characters(value, text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise InputError(
            f"{path}:{line}: not JSON ({json_fault(error)}). Give one object, from each question's "
            "id to its answer."
        ) from None
    if not isinstance(value, dict):
        raise InputError(
            f"{path}: found {json_type(value)}; an object is expected, from each question's id to "
            "its answer."
        )
    return value


def _values_of_lines(path: Path, key: str) -> Iterator[tuple[str, Any]]:
    for row, record in read_jsonl(path):
        for name in ("id", key):
            if name not in record:
                keys = ", ".join(f"'{found}'" for found in list(record)[:10]) or "none"
                raise InputError(f"{path}:{row}: no key '{name}'. Keys found: {keys}.")
        yield str(record["id"]), record[key]


def _without_doubles(path: Path, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for id_, value in pairs:
        if id_ in found:
            raise InputError(f"{path}: '{id_}' stands twice. Give one answer for each question.")
        found[id_] = value
    return found


def _checked(path: Path, id_: str, value: Any, kind: type) -> Any:
    """A value that is a string, or a finite number."""
    if kind is str and isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number and _is_finite(value):
        return value
    found = str(value) if is_number else json_type(value)
    wanted = "a string (empty where there is no answer)" if kind is str else "a finite number"
    raise InputError(f"{path}: '{id_}' is {found}; {wanted} is expected.")


def _is_finite(number: float) -> bool:
    """Whether a number of JSON, which may be whole and of any size, is a finite float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def read_labels(path: Path, *, several: bool = False) -> Iterator[Example]:
    """Predicted labels, as examples without a text; `row` is that in the gold file, if said.

    Args:
        path: `.txt`, `.csv`, `.tsv` or `.jsonl`.
        several: whether a line may have any number of labels: several as one text (see
            `label_set`) or as a JSON list, or none.

    Raises:
        InputError: a line without a label, or no column of labels.
    """
    read = _several if several else _single
    return (Example("", label=read(path, cell), row=cell.gold_row) for cell in _cells(path))


class _Cell(NamedTuple):
    """What stands at line `row` in the column of predictions; `gold_row` is 0 if it is not said."""

    row: int
    column: str
    value: Any
    gold_row: int = 0


def _cells(path: Path) -> Iterator[_Cell]:
    kind = table_format(path)
    if kind == "txt":
        yield from (_Cell(row, "the line", line) for row, line in read_txt(path))
    elif kind == "jsonl":
        yield from (_cell_of(path, row, record) for row, record in read_jsonl(path))
    else:
        rows = read_csv(path) if kind == "csv" else read_tsv(path)
        _, header = next(rows, (0, []))
        for row, cells in rows:
            yield _cell_of(path, row, dict(zip(header, cells, strict=False)) | {"row": None})


def _cell_of(path: Path, row: int, record: Mapping[str, Any]) -> _Cell:
    # In any case, as the columns of gold files are found: else `Prediction` gave way to `label`.
    columns = {name.strip().lower(): name for name in reversed(list(record))}
    name = next((columns[name] for name in PREDICTION_COLUMNS if name in columns), None)
    if name is None:
        keys = ", ".join(f"'{found}'" for found in list(record)[:10]) or "none"
        wanted = ", ".join(f"'{column}'" for column in PREDICTION_COLUMNS)
        raise InputError(f"{path}:{row}: no column of labels ({wanted}). Columns found: {keys}.")
    gold_row = record.get("row")
    return _Cell(row, name, record[name], gold_row if isinstance(gold_row, int) else 0)


def _single(path: Path, cell: _Cell) -> str:
    """One label."""
    label = _as_text(path, cell, cell.value, "Give one label on each line.")
    if not label:
        raise InputError(f"{path}:{cell.row}: the label is empty. Give one label on each line.")
    return label


def _several(path: Path, cell: _Cell) -> str:
    """Any number of labels, a list of them as `ExampleReader` gives it."""
    advice = "Give labels as one text or as a list."
    if cell.value is None:
        return ""
    if not isinstance(cell.value, list):
        return _as_text(path, cell, cell.value, advice)
    parts = (_as_text(path, cell, part, advice) for part in cell.value)
    return "".join(part + LIST_SEPARATOR for part in parts)


def _as_text(path: Path, cell: _Cell, value: Any, advice: str) -> str:
    if value is None or isinstance(value, list | dict):
        raise InputError(
            f"{path}:{cell.row}: '{cell.column}' is {json_type(value)}; a string or a number is "
            f"expected. {advice}"
        )
    return (value if isinstance(value, str) else json.dumps(value)).strip()
